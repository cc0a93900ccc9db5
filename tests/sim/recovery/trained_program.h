// The program that is trained while its hosts die, and the inputs of its steps.
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "gangway.h"

namespace gangway::sim {

// A program on four devices: "count" is cut over them, "trace" lies on each, and "steps" is the
// version. Input "x", scalar output "loss", and output "row", an array that stays on the devices.
Program trained_program(bool in_double = false);
HostTensor number(double value, bool in_double = false);
double as_double(const HostTensor& scalar);
// The inputs of steps, and that of a step, which is counted from 0.
Schedule inputs_of_steps();
double input_of(int step);

}  // namespace gangway::sim
