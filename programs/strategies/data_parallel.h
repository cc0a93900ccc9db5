// Data parallelism: devices hold the same parameters and different rows of the batch; the gradients
// are summed over them.
//
// Threads: pure.
#pragma once

#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Cuts the batch over every axis but "model" and "context".
Strategy data_parallel(const Mesh& mesh);

}  // namespace gangway::programs
