// The bodies of scans and calls: functions that nodes name. However many nodes name a body, it is
// one object in memory, and the text and the wire form write it once, with its locations: copies
// would grow with the square of a model's depth.
//
// A fusion has a body too, but no other node shares it, and it is written inside its fusion.
//
// Threads: BodyTable and BodySizes belong to one thread; the rest are values.
// Ownership: they keep pointers into the functions they were given.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

inline bool shares_body(Op op) { return op == Op::scan || op == Op::call; }

// How a scan's operands and results are divided. The operands, like the body's parameters, are
// carries, invariants, then stacked tensors (slices in the body). The results, like the body's, are
// carries, then stacked tensors.
// A local scan may work ahead (ir/transforms/overlap): each iteration computes the last `ahead` of
// its carries for the next one, from the last `next` of its stacked operands, which show the slices
// that the next iteration will see. The last iteration has no next one: it skips the nodes that
// nothing else needs (ahead_nodes), and nothing reads what they would compute.
struct ScanLayout {
  explicit ScanLayout(const Attrs& attrs)
      : length(attrs.integer("length")),
        carries(static_cast<size_t>(attrs.integer("carries"))),
        invariants(static_cast<size_t>(attrs.integer("invariants"))),
        reverse(attrs.flag("reverse")),
        ahead(static_cast<size_t>(attrs.integer("ahead"))),
        next(static_cast<size_t>(attrs.integer("next"))) {}
  // The layout of a scan, or of a call, which is one iteration that sees all of its operands whole.
  explicit ScanLayout(const Node& node)
      : ScanLayout(row(node.op).repeats_body ? ScanLayout(node.attrs)
                                             : ScanLayout(node.inputs.size())) {}

  int64_t length;     // Iterations.
  size_t carries;     // Values that an iteration passes to the next; each keeps its type.
  size_t invariants;  // Values that every iteration sees whole.
  bool reverse;       // The last slices come first; results are stacked where their slices lie.
  size_t ahead = 0;   // Number of the last carries that are computed an iteration ahead.
  size_t next = 0;    // Number of the last stacked operands that show the next iteration's slice.
  // Results behind the carries have a row for each iteration; false for a call.
  bool stacks = true;

  // Index of an operand or parameter.
  size_t first_stacked() const { return carries + invariants; }
  // Whether the operand at index `operand`, of `operands` in all, shows the next iteration's slice.
  bool shows_next(size_t operand, size_t operands) const { return operand + next >= operands; }

 private:
  explicit ScanLayout(size_t operands)
      : length(1), carries(0), invariants(operands), reverse(false), stacks(false) {}
};

// For each node of a body: whether only carries that are computed ahead need it.
std::vector<bool> ahead_nodes(const Function& body, const ScanLayout& layout);

// All bodies that functions name, each once; a body comes after those that its own nodes name.
class BodyTable {
 public:
  // Adds the bodies that this function names, and those inside them. Adding a function again
  // changes nothing.
  void add(const Function& function);

  uint32_t size() const { return static_cast<uint32_t>(bodies_.size()); }
  const Function& operator[](uint32_t index) const { return *bodies_[index]; }
  // The index of a body that was added.
  uint32_t at(const Function* body) const { return index_.at(body); }

 private:
  std::vector<const Function*> bodies_;
  std::map<const Function*, uint32_t> index_;
};

// The first node where devices meet (OpRow::meets), in the function or in a body inside it.
// `function` is the one that holds the node, null if devices meet nowhere. Visits each body once.
struct Meeting {
  const Function* function = nullptr;
  NodeId node = kNone;
};
Meeting first_meeting(const Function& function);

// The nesting depth of a function's bodies (0: it has none), and its number of nodes where each
// body counts as often as it is named; saturating.
struct BodySize {
  int depth = 0;
  size_t nodes = 0;
};

// Measures functions; a body that is named often is measured once.
class BodySizes {
 public:
  BodySize of(const Function& function);

 private:
  std::map<const Function*, BodySize> known_;
};

}  // namespace gangway
