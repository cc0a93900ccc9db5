// KeptRecords: records of why plans were compiled as they were (ir/transforms/compile_record.h),
// for the plans that somebody asked about last: the next question about one costs no compilation.
//
// A record is several times as large as a compiled function, so only the records of kPlansMax plans
// are kept, each as long as its plan exists. Records name bodies of the program that they were made
// from, so programs of equal content have records of their own.
//
// Threads: one thread's; any thread may read what find() returns.
// Cost: O(kPlansMax).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "ir/graph/program.h"
#include "ir/plan/plan.h"
#include "ir/transforms/compile_record.h"

namespace gangway {

class KeptRecords {
 public:
  static constexpr size_t kPlansMax = 8;
  using Calls = std::map<uint32_t, CompileRecord>;  // Key: a node of the program.

  // Null: the plan's records are not here.
  std::shared_ptr<const Calls> find(const std::shared_ptr<const Plan>& plan) {
    if (!bring_to_front(plan)) return nullptr;
    ++found_;
    return entries_.front().calls;
  }
  void keep(std::shared_ptr<const Program> program, const std::shared_ptr<const Plan>& plan,
            std::shared_ptr<const Calls> calls) {
    if (bring_to_front(plan)) return;  // Another caller asked meanwhile.
    entries_.push_front({plan, std::move(program), std::move(calls)});
    if (entries_.size() > kPlansMax) entries_.pop_back();
  }
  size_t size() const { return entries_.size(); }
  uint64_t found() const { return found_; }  // Number of times that find() had them.

 private:
  struct Entry {
    std::weak_ptr<const Plan> plan;
    std::shared_ptr<const Program> program;  // The records name its bodies.
    std::shared_ptr<const Calls> calls;
  };
  bool bring_to_front(const std::shared_ptr<const Plan>& plan) {
    std::erase_if(entries_, [](const Entry& entry) { return entry.plan.expired(); });
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.plan.lock() == plan; });
    if (found == entries_.end()) return false;
    std::rotate(entries_.begin(), found, std::next(found));
    return true;
  }

  std::deque<Entry> entries_;  // The plan that was asked for last comes first.
  uint64_t found_ = 0;
};

}  // namespace gangway
