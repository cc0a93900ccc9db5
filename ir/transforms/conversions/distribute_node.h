// The local nodes of a node that is cut along a factor which takes a distributed op
// (ir/op_table/distributed_op.h): the distributed op is traced with a builder of its own, and what
// it traced goes into the local function, with the line and the scopes of the node.
//
// Threads: pure.
// Errors: what the distributed op throws, with the node's line.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/build/value.h"
#include "ir/graph/function.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {

struct DistributedNode {
  NodeId id = kNone;   // Node of the global function, which is the source of the rewriter.
  const OpCall& call;  // In the global view.
  const Attrs& attrs;  // Attributes of the local op.
  const Factor& factor;
  std::span<const int> axes;  // Axes of the mesh that cut the factor; outer first.
  // Values of the target, in the shardings that the node requires.
  std::span<const ValueId> inputs;
};

// The results, in the target.
std::vector<ValueId> distribute_node(Rewriter& out, const DistributedNode& node);

// Traces local nodes that come from a node of the global function. `trace` gets the inputs, which
// are values of the target, as values of its builder.
using Tracing = std::function<std::vector<Value>(Builder&, const std::vector<Value>&)>;
std::vector<ValueId> trace_nodes(Rewriter& out, NodeId id, std::span<const ValueId> inputs,
                                 const Tracing& trace);

}  // namespace gangway
