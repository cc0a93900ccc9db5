// One backward pass over the function that a builder holds; gradients() and the derivatives of
// bodies share it.
//
// Threads: one thread, the builder's.
// Errors: kInvalid when an active path passes an op without a gradient, named with its line.
#pragma once

#include <map>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/value.h"

namespace gangway::internal {

// Marks the values among the first `nodes` nodes that depend on the wanted values: only those are
// differentiated.
std::vector<bool> active_values(const Function& function, NodeId nodes,
                                const std::vector<ValueId>& wanted);

class Backward {
 public:
  // How a path that is differentiated treats an op without a gradient.
  enum class Missing { kRefused, kPassedBy };

  // Differentiates the nodes that the builder holds now.
  Backward(Builder& builder, std::vector<bool> active, Loc loc,
           Missing missing = Missing::kRefused);

  NodeId nodes() const { return nodes_; }
  bool active(ValueId value) const { return active_[value]; }
  // Adds to the cotangent of a value; before run().
  void seed(ValueId value, Value cotangent);
  void run();
  // Empty: nothing flows back to it.
  Value cotangent(ValueId value) const { return cotangents_[value]; }

 private:
  void visit(NodeId id);
  Value residual(const Node& node, ValueId value);
  void recompute(uint32_t region, std::map<ValueId, Value>& values);

  Builder& builder_;
  NodeId nodes_;  // Nodes of the forward pass; this object added the nodes after these.
  Loc loc_;
  Missing missing_;
  std::vector<bool> active_;
  std::vector<Value> cotangents_;
  std::map<uint32_t, std::vector<NodeId>> regions_;  // The nodes of each, in order.
  std::map<uint32_t, std::map<ValueId, Value>> recomputed_;
};

}  // namespace gangway::internal
