// The bodies of scans and calls: functions that nodes name. However many nodes name one, it is one
// object here, and is written once in the text and the wire form, its locations included: copies
// would grow with the square of a model's depth.
//
// A fusion has a body too, but of its own, and it is written where the fusion stands.
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

// How a scan's operands and results are divided. Operands, and so the body's parameters: carries,
// invariants, stacked (slices in the body). Results, and so the body's: carries, stacked.
//
// A local scan may work ahead (ir/transforms/overlap): each iteration computes the last `ahead` of
// its carries for the next one, from the last `next` of its stacked operands, which show the slices
// that the next iteration will see. In the last iteration there is nothing to work for: nodes that
// nothing else needs (ahead_nodes) are passed over, and what they would give is never read.
struct ScanLayout {
  explicit ScanLayout(const Attrs& attrs)
      : length(attrs.integer("length")),
        carries(static_cast<size_t>(attrs.integer("carries"))),
        invariants(static_cast<size_t>(attrs.integer("invariants"))),
        reverse(attrs.flag("reverse")),
        ahead(static_cast<size_t>(attrs.integer("ahead"))),
        next(static_cast<size_t>(attrs.integer("next"))) {}
  // Of a scan or a call, which is one iteration that sees all of its operands whole.
  explicit ScanLayout(const Node& node)
      : ScanLayout(node.op == Op::scan ? ScanLayout(node.attrs) : ScanLayout(node.inputs.size())) {}

  int64_t length;      // Iterations.
  size_t carries;      // What an iteration hands to the next; each keeps its type.
  size_t invariants;   // What all iterations see whole.
  bool reverse;        // The last slices come first; results are stacked where their slices lie.
  size_t ahead = 0;    // How many of the last carries are made an iteration ahead.
  size_t next = 0;     // How many of the last stacked operands show the next iteration's slice.
  bool stacks = true;  // Results behind the carries have a row for each iteration: not of a call.

  size_t first_stacked() const { return carries + invariants; }  // Operand or parameter.
  // Of one of `operands`.
  bool shows_next(size_t operand, size_t operands) const { return operand + next >= operands; }

 private:
  explicit ScanLayout(size_t operands)
      : length(1), carries(0), invariants(operands), reverse(false), stacks(false) {}
};

// By node of a body: whether nothing but carries that are made ahead needs it.
std::vector<bool> ahead_nodes(const Function& body, const ScanLayout& layout);

// All bodies that functions name, each once, behind those that its own nodes name.
class BodyTable {
 public:
  // The bodies in this function and inside those. Adding twice is as adding once.
  void add(const Function& function);

  uint32_t size() const { return static_cast<uint32_t>(bodies_.size()); }
  const Function& operator[](uint32_t index) const { return *bodies_[index]; }
  // Where a body that was added stands.
  uint32_t at(const Function* body) const { return index_.at(body); }

 private:
  std::vector<const Function*> bodies_;
  std::map<const Function*, uint32_t> index_;
};

// The first node where devices meet (OpRow::meets), of the function or of a body in it; `function`
// is the one that has the node, null where nobody meets. Looks at each body once.
struct Meeting {
  const Function* function = nullptr;
  NodeId node = kNone;
};
Meeting first_meeting(const Function& function);

// How deep bodies lie in one another in a function (0: it has none), and how many nodes it has when
// each body counts as often as it is named; saturating.
struct BodySize {
  int depth = 0;
  size_t nodes = 0;
};

// Measures functions; a body that is named often costs once.
class BodySizes {
 public:
  BodySize of(const Function& function);

 private:
  std::map<const Function*, BodySize> known_;
};

}  // namespace gangway
