// Lets the time of a simulation pass, in nanoseconds.
//
// Threads: the reactor's, in a fiber.
#pragma once

#include <cstdint>

#include "runtime/fibers/reactor.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

inline constexpr int64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

// Suspends for `ns` of the reactor's time.
inline void pass(Reactor& reactor, int64_t ns) {
  WaitQueue().wait_until_ns("for time to pass", reactor.clock().now_ns() + ns);
}

}  // namespace gangway
