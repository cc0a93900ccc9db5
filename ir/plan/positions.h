// Positions: how the nodes of a plan are counted where tickets are granted.
//
// A position is the number of a section in one slice of the plan: what a device of the slice does
// without going over to another program's work. Each granted position has one ticket. Positions
// follow the order of the nodes:
//
//   call      one for each section before the function's commit point, at least one
//   commit    one for each section from there on, at least one
//   gate      one in every slice of the plan
//   others    one
//
// Invariant: every process counts the same from the same plan.
// Threads: a value; what it needs of the plan it copies.
// Errors: the plan keeps its rules (plan_check.h), but for the number of positions: the constructor
// throws kInvalid where a slice has more than kPositionsMax.
// Cost: O(nodes + sections of the functions), not of the calls; a question O(log nodes).
//
// Example:
//   const Positions positions(plan);
//   for (uint32_t p = 0; p < positions.count(slice); ++p) grant(positions.node_at(slice, p));
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

// The entries of LocalFunction::sections that a call (before the commit point) or a commit (from
// there on) runs. Empty if they are not cut: the whole part is then one position.
struct SectionRange {
  uint32_t first = 0;
  uint32_t count = 0;
  friend bool operator==(const SectionRange&, const SectionRange&) = default;
};

class Positions {
 public:
  explicit Positions(const Plan& plan);

  struct Range {
    uint32_t first = 0;
    uint32_t count = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  uint32_t slices() const { return static_cast<uint32_t>(spans_.size()); }
  // Number of positions of one run in a slice.
  uint32_t count(uint32_t slice) const { return counts_[slice]; }
  // Number of positions of one run in all slices; the gate counts once.
  uint32_t total() const { return total_; }
  // Positions of a node counted over the whole plan, in the order of its nodes: the gate is one.
  Range in_order(uint32_t node) const;
  // Position of the gate in a slice; kNone: the plan has no gate.
  uint32_t gate(uint32_t slice) const { return gates_.empty() ? kNone : gates_[slice]; }
  // Positions of a node in a slice; empty if the node does nothing there.
  Range of(uint32_t node, uint32_t slice) const;
  // Sections of the node's function.
  SectionRange sections(uint32_t node, uint32_t slice) const;
  uint32_t node_at(uint32_t slice, uint32_t position) const;
  // How long the positions keep a device of the slice busy, with all its ranks, by the cost model.
  // Only calls and commits do, and only if their functions are cut.
  int64_t modelled_ns(uint32_t slice, Range range) const;

 private:
  // The positions of one node in one slice.
  struct Span {
    uint32_t node = 0;
    uint32_t first = 0;
    uint32_t function = kNone;  // kNone: it takes no modelled time.
    SectionRange sections;
    int64_t before_ns = 0;  // Modelled time of all positions before `first`.
  };

  void add(uint32_t slice, Span span, uint32_t count);
  const Span* span_of(uint32_t node, uint32_t slice) const;
  const Span& span_at(uint32_t slice, uint32_t position) const;
  int64_t span_ns(const Span& span, uint32_t sections) const;
  int64_t before_ns(uint32_t slice, uint32_t position) const;

  std::vector<std::vector<Span>> spans_;  // Indexed by slice; ascending by node and by position.
  std::vector<uint32_t> counts_;          // Indexed by slice.
  std::vector<uint32_t> firsts_;          // Indexed by node: the first of in_order().
  std::vector<uint32_t> gates_;           // Indexed by slice; empty if there is no gate.
  std::vector<uint32_t> ranks_;           // Ranks of each device, indexed by slice.
  uint32_t total_ = 0;
  // Modelled time of the first n sections of each function.
  std::vector<std::vector<int64_t>> until_ns_;
};

}  // namespace gangway
