// The local nodes of a node that is cut along a factor which takes a lowering
// (ir/op_table/lowering.h): the lowering is traced with a builder of its own, and what it traced
// goes into the local function, with the line and the scopes of the node.
//
// Threads: pure.
// Errors: what the lowering throws, with the node's line.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {

struct LoweredNode {
  NodeId id = kNone;   // Node of the global function, which is the source of the rewriter.
  const OpCall& call;  // In the global view.
  const Attrs& attrs;  // Attributes of the local op.
  const Factor& factor;
  std::span<const int> axes;  // Axes of the mesh that cut the factor; outer first.
  // Values of the target, in the shardings that the node requires.
  std::span<const ValueId> inputs;
};

// The results, in the target.
std::vector<ValueId> lower_node(Rewriter& out, const LoweredNode& node);

}  // namespace gangway
