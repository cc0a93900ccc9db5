#include "ir/transforms/sections/cut_sections.h"

#include <algorithm>

#include "ir/plan/plan_check.h"
#include "ir/plan/step_map.h"

namespace gangway {
namespace {

class SectionCutter {
 public:
  SectionCutter(const Function& local, const DeviceRates& rates, int64_t limit_ns)
      : steps_(local),
        collectives_(steps_),
        costs_(steps_,
               [&rates](const Function& function, NodeId id) {
                 return std::min(modelled_ns(rates, function, id), kSectionNsMax);
               }),
        limit_ns_(std::max(limit_ns, costs_.total() / kSectionsMax)) {}

  std::vector<LocalFunction::Section> run(NodeId commit_begin) {
    cut(0, steps_.first_step(commit_begin));
    cut(steps_.first_step(commit_begin), steps_.count());
    return std::move(sections_);
  }

 private:
  void cut(uint32_t begin, uint32_t end) {
    while (begin < end) {
      const uint32_t next = section_end(begin, end);
      sections_.push_back({begin, std::min(cost_ns(begin, next), kSectionNsMax)});
      begin = next;
    }
  }

  // Takes as many steps as fit; if some are left, ends behind the last collective among them that
  // is late enough.
  uint32_t section_end(uint32_t begin, uint32_t end) const {
    uint32_t fits = begin + 1, beyond = end + 1;
    while (beyond - fits > 1) {
      const uint32_t middle = fits + (beyond - fits) / 2;
      (cost_ns(begin, middle) <= limit_ns_ ? fits : beyond) = middle;
    }
    if (fits == end) return end;
    const uint32_t met = collectives_.previous(fits);
    const bool late = met != kNone && met >= begin && cost_ns(begin, met + 1) >= limit_ns_ / 4;
    return late ? met + 1 : fits;
  }

  int64_t cost_ns(uint32_t begin, uint32_t end) const {
    return costs_.before(end) - costs_.before(begin);
  }

  const StepMap steps_;
  const StepMarks collectives_;
  const StepSums costs_;
  const int64_t limit_ns_;
  std::vector<LocalFunction::Section> sections_;
};

}  // namespace

std::vector<LocalFunction::Section> cut_sections(const Function& local, NodeId commit_begin,
                                                 const DeviceRates& rates, int64_t limit_ns) {
  return SectionCutter(local, rates, limit_ns).run(commit_begin);
}

}  // namespace gangway
