// Global function -> local function of one device: types become local, and where a producer's
// sharding differs from what a consumer requires, a conversion is inserted: the local ops of the
// path that plan_conversion.h finds. The conversion is the collective.
//
// Each value is converted once for each sharding wanted, from whichever of its conversions so far
// (or of the layouts on their way) is nearest, and what other readers want is done first where that
// saves: a sum that one reader wants whole and another in parts is reduced once and cut. Constants
// and broadcasts are computed again instead. Results never stay partial. The bodies of scans and
// calls are partitioned alike, each once; what they need converted is converted in them.
//
// A weight (a parameter, or its conversion to another type) is converted for the forward and for
// the backward pass separately: else those of all layers would lie whole at once (FSDP, Zhao et al.
// 2023).
//
// An op that is cut along a factor with a distributed op is replaced by it (distribute_node.h).
// Products of dropless experts are lowered together, so that rows stay with the experts between
// them (expert_rows.h).
//
// Threads: a pure function.
// Cost: linear in nodes; a conversion is looked for once for each type and pair of shardings.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/conversions/conversion_costs.h"
#include "ir/transforms/conversions/plan_conversion.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway {

// A conversion that was inserted, and the shardings from which it could have begun instead.
struct ConversionRecord {
  const Function* in = nullptr;  // The body that has the value; null: the function itself.
  ValueId value = kNone;
  NodeId reader = kNone;  // The node that needs it; kNone: the value is a result.
  // It is on the way to the sharding that the reader wants, and another conversion reads it.
  bool first = false;
  bool again = false;  // Nothing is moved: each device computes its part again.
  Sharding from, to;
  std::vector<ConversionStep> steps;
  int64_t cost_ps = 0;
  struct Rejected {
    Sharding from;
    int64_t cost_ps = 0;
  };
  std::vector<Rejected> rejected;
};

struct Partitioned {
  Function function;
  std::vector<Sharding> result_shardings;
  // Work of the pass: the nodes, operands, conversions of a value and edges of the graph of
  // shardings that it visited. For tests of its cost.
  uint64_t looked_at = 0;
  std::vector<ConversionRecord> conversions = {};  // In the order they were inserted, if recorded.
};

enum class RecordConversions : uint8_t { kNo, kYes };

// `wanted[r]`: the sharding of result r, or an empty one for what propagation gave (partial becomes
// replicate).
Partitioned partition(const Function& global, const Propagation& propagation,
                      const std::vector<Sharding>& parameter_shardings,
                      const std::vector<Sharding>& wanted, const ConversionCosts& costs = {},
                      RecordConversions record = RecordConversions::kNo);

}  // namespace gangway
