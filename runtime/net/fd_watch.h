// Futures of file descriptors becoming readable, on a real reactor. Internal to runtime/.
//
// Threads: the reactor's thread.
// Ownership: the descriptor stays the caller's and must stay open until the future is ready or its
// fiber is cancelled.
#pragma once

#include "runtime/fibers/future.h"

namespace gangway::internal {

// Suspends until `fd` can be read without blocking, or has reached its end.
void wait_readable(Reactor& reactor, int fd);

}  // namespace gangway::internal
