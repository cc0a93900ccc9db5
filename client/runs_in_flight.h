// Number of runs of a program that may be in flight where its user has not said.
//
// Each run in flight has memory of its own on the devices for its inputs, batches, transfers and
// outputs. Eight runs hide the way of a call through controller and executors behind steps of some
// 20 us and more. Where these values take at most 64 KiB there are 64 runs, which hide it behind
// shorter calls too; many of these then travel together.
//
// Threads: pure. Cost: O(nodes of the program).
#pragma once

#include <cstdint>

#include "ir/graph/program.h"

namespace gangway::internal {

int64_t default_runs_in_flight(const Program& program);

}  // namespace gangway::internal
