// Expert parallelism (GShard, Lepikhin et al. 2020): each device holds some of the experts, and
// tokens go to the devices of theirs and back by an all-to-all.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Over the axis "expert", along which the batch is cut too.
Strategy expert_parallel();

}  // namespace gangway::programs
