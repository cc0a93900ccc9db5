// The simulated port: virtual time that jumps to the next timer whenever nothing else can happen.
//
// Everything runs on one thread in an order that depends on the program and its seed only.
// Errors: block() throws kBug "deadlock" when no timer is left to wait for, kCancelled past the
// time limit.
#pragma once

#include <memory>

#include "runtime/fibers/port.h"

namespace gangway::internal {

struct SimPortOptions {
  int64_t start_ns = 0;
  int64_t time_limit_ns = 0;  // Virtual time that may pass.
};

std::unique_ptr<Port> make_sim_port(SimPortOptions options);

}  // namespace gangway::internal
