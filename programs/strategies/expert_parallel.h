// Expert parallelism (GShard, Lepikhin et al. 2020): each device holds some of the experts, and the
// rows of tokens go to the devices of theirs and back, by an all-to-all each.
//
// Threads: pure.
#pragma once

#include "programs/models/moe.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Over the axis "expert", along which the batch is cut too. Where experts have a capacity, the
// slots of an expert are a part of all slots, as large as any other: rows are told to go there.
// Dropless, rows are cut by nothing but the batch; experts' weights decide beside it, since rows
// move and weights stay (ir/op_table/rows/dropless_experts.h).
Strategy expert_parallel(const MoeConfig& experts);

}  // namespace gangway::programs
