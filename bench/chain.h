// Chains of calls of a trivial function, x + 1. They measure what a node costs beside its kernel.
//
// Units: microseconds.
// Errors: a chain with a wrong result throws.
#pragma once

#include <cstdint>
#include <vector>

#include "client/client.h"

namespace gangway::bench {

double now_us();
// Returns the middle value, or the greater one of two middle values.
double median(std::vector<double> values);

// Node i runs on slice i % slices.
Program chain(uint32_t slices, uint32_t nodes);

// Enqueues a round of runs of a chain, and waits for the last. Returns the time of one run.
double us_per_run(const Executable& executable, int runs, uint32_t nodes);

}  // namespace gangway::bench
