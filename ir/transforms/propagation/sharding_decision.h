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
  NodeId through = kNone;  // The node between them; of an annotated value its `constrain`, if any.
};

// What a node must have moved for one way to cut it: what operands and results are converted, and
// about how many bytes each device receives for that.
struct CutCost {
  int conversions = 0;
  int stored = 0;  // How many of them are of tensors that lie as a parameter's annotation says.
  double bytes = 0;
};

struct RejectedCut {
  int factor = 0;        // Index into the node's factors.
  ValueId from = kNone;  // Whose layout asked for it.
  CutCost cost;
  bool of_later_priority = false;  // It lost by its priority, whatever it would have cost.
};

// How a node is cut along one axis.
struct ShardingDecision {
  NodeId node = kNone;
  int axis = 0;
  int factor = 0;        // The winner; NodeCut::kWhole of a residual that is kept as it was read.
  ValueId from = kNone;  // Whose layout it came from.
  int priority = 0;      // Of the annotation where it began.
  CutCost cost;          // As far as layouts were known when it was taken.
  std::vector<RejectedCut> rejected;
};

}  // namespace gangway
