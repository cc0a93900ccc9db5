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
  NodeId id = kNone;   // In the global function, which is the source of the rewriter.
  const OpCall& call;  // In the global view.
  const Attrs& attrs;  // Of the local op.
  const Factor& factor;
  std::span<const int> axes;        // Of the mesh, that cut the factor; outer first.
  std::span<const ValueId> inputs;  // In the target: as the node requires them.
};

// The results, in the target.
std::vector<ValueId> lower_node(Rewriter& out, const LoweredNode& node);

}  // namespace gangway
