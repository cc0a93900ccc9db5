// The record of who decided how values and nodes are cut, for explain() and tools.
//
// Threads: values.
#pragma once

#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Why a value has its sharding: "sharded on data because parameter "tokens" was; through dot %14".
struct ShardingReason {
  ValueId from = kNone;    // The value that decided, or itself when annotated.
  NodeId through = kNone;  // The node between them; for an annotated value its `constrain`, if any.
};

// The traffic that one way to cut a node causes: the operands and results that are converted, and
// about how many bytes each device receives for that.
struct CutCost {
  int conversions = 0;
  int stored = 0;  // Number of conversions of tensors that are placed by a parameter's annotation.
  double bytes = 0;
};

struct RejectedCut {
  int factor = 0;        // Index into the node's factors.
  ValueId from = kNone;  // The value whose layout suggested it.
  CutCost cost;
  bool of_later_priority = false;  // It lost by its priority, whatever it would have cost.
};

// How a node is cut along one axis.
struct ShardingDecision {
  NodeId node = kNone;
  int axis = 0;
  int factor = 0;        // The winner; NodeCut::kWhole for a residual that is kept as it was read.
  ValueId from = kNone;  // The value whose layout suggested it.
  int priority = 0;      // Priority of the annotation where it began.
  CutCost cost;          // With the layouts that were known when the decision was taken.
  std::vector<RejectedCut> rejected;
};

}  // namespace gangway
