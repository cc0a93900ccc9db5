// The program that is trained while its hosts die, and what its steps are given.
//
// Threads: pure, but for pass(), which suspends.
#pragma once

#include <cstdint>

#include "gangway.h"
#include "runtime/fibers/reactor.h"

namespace gangway::sim {

inline constexpr int64_t kMillisecond = 1'000'000;

// On four devices: "count" is cut over them, "trace" lies on each, and "steps" is the version.
// Input "x", scalar output "loss", and output "row", an array that stays on the devices.
Program trained_program(bool in_double = false);
HostTensor number(double value, bool in_double = false);
double as_double(const HostTensor& scalar);
// Of step i, from 0 on.
double input_of(int step);

void pass(Reactor& reactor, int64_t ns);

}  // namespace gangway::sim
