// Chains of calls of a trivial function, x + 1: what a node costs beside its kernel.
//
// Units: microseconds.
// Errors: a chain that counts wrong throws.
#pragma once

#include <cstdint>
#include <vector>

#include "client/client.h"

namespace gangway::bench {

double now_us();
// The middle one, or of two the greater.
double median(std::vector<double> values);

// Node i runs on slice i % slices.
Program chain(uint32_t slices, uint32_t nodes);

// One round of a chain: so many runs enqueued, the last one waited for. A run.
double us_per_run(const Executable& executable, int runs, uint32_t nodes);

}  // namespace gangway::bench
