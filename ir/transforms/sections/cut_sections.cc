#include "ir/transforms/sections/cut_sections.h"

#include <algorithm>

#include "ir/plan/plan_check.h"

namespace gangway {
namespace {

class SectionCutter {
 public:
  SectionCutter(const Function& local, const DeviceRates& rates, int64_t limit_ns)
      : local_(local), rates_(rates), limit_ns_(limit_ns) {}

  // The nodes begin .. end - 1.
  void cut(NodeId begin, NodeId end) {
    if (begin == end) return;
    begin_ = begin;
    busy_ns_ = 0;
    met_ = kNone;
    for (NodeId id = begin; id < end; ++id) {
      const int64_t node_ns = std::min(modelled_ns(rates_, local_, id), kSectionNsMax);
      while (id > begin_ && busy_ns_ + node_ns > limit_ns_) end_section(id);
      busy_ns_ += node_ns;
      if (row(local_.nodes[id].op).meets && busy_ns_ >= limit_ns_ / 4) {
        met_ = id + 1;
        met_ns_ = busy_ns_;
      }
    }
    add(busy_ns_);
  }

  std::vector<LocalFunction::Section> take() { return std::move(sections_); }

 private:
  // Behind the last collective that is late enough, or else before `id`.
  void end_section(NodeId id) {
    const bool at_meeting = met_ != kNone;
    const int64_t taken_ns = at_meeting ? met_ns_ : busy_ns_;
    add(taken_ns);
    begin_ = at_meeting ? met_ : id;
    busy_ns_ -= taken_ns;
    met_ = kNone;
  }

  void add(int64_t ns) { sections_.push_back({begin_, std::min(ns, kSectionNsMax)}); }

  const Function& local_;
  const DeviceRates& rates_;
  const int64_t limit_ns_;
  std::vector<LocalFunction::Section> sections_;
  NodeId begin_ = 0;     // Of the section that is open.
  int64_t busy_ns_ = 0;  // Its nodes so far.
  NodeId met_ = kNone;   // Behind its last collective that is late enough to cut there.
  int64_t met_ns_ = 0;   // The nodes before that.
};

}  // namespace

std::vector<LocalFunction::Section> cut_sections(const LocalFunction& local,
                                                 const DeviceRates& rates, int64_t limit_ns) {
  const Function& function = *local.function;
  SectionCutter cutter(function, rates, limit_ns);
  cutter.cut(0, local.commit_begin);
  cutter.cut(local.commit_begin, static_cast<NodeId>(function.nodes.size()));
  return cutter.take();
}

}  // namespace gangway
