// Lowering: a verified program and the physical devices of its slices become one plan.
//
// Calls are compiled once for each distinct (function, context), by content hash. Nodes keep the
// program's order, which is a linear extension of its edges; the gate and the commits follow, so
// that every call that updates state has its first phase before the gate and its last after it.
//
// Threads: pure but for the cache, which belongs to the caller's thread.
// Errors: kInvalid or kUnimplemented with the user's line; a program that does not fit is the
// executors' to say.
// Cost: O(nodes), plus compilation of what the cache does not hold. Nothing grows with shards.
//
// Example:
//   CompileCache cache;
//   Plan plan = lower(program, {.slices = {ranges}, .hosts = {"host-0"}}, cache);
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/transforms/pipeline.h"
#include "runtime/base/hash.h"

namespace gangway {

struct LowerOptions {
  std::vector<std::vector<PlanRange>> slices;  // For each slice of the program.
  std::vector<uint32_t> ranks_per_device;      // The same; empty: one on each.
  std::vector<std::string> kinds;    // Of device, by slice of the program; empty: all are "cpu".
  std::vector<std::string> hosts;    // What PlanRange::host counts.
  std::vector<std::string> islands;  // By host; empty: all lie in one.
  int64_t runs_in_flight_max = 2;
  Dispatch dispatch = Dispatch::kParallel;
};

// Compiled functions by the content of the function and of its context. Bounded: when full it
// starts over, since programs that are compiled again come soon after one another.
class CompileCache {
 public:
  const Compiled& compile(const Function& function, const CallContext& context);
  size_t size() const { return compiled_.size(); }
  size_t hits() const { return hits_; }

 private:
  static constexpr size_t kEntriesMax = 1024;
  std::map<std::pair<Hash128, Hash128>, Compiled> compiled_;
  size_t hits_ = 0;
};

Plan lower(const Program& program, const LowerOptions& options, CompileCache& cache);

}  // namespace gangway
