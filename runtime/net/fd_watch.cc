#include "runtime/net/fd_watch.h"

#include <kj/async-unix.h>
#include <poll.h>

#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"

namespace gangway::internal {

void wait_readable(Reactor& reactor, int fd) {
  GW_ASSERT(reactor.port().unix_port() != nullptr, "a simulated reactor has no file descriptors");
  kj::UnixEventPort::FdObserver observer(*reactor.port().unix_port(), fd,
                                         kj::UnixEventPort::FdObserver::OBSERVE_READ);
  // Edge-triggered: what was readable before may not fire again.
  while (true) {
    pollfd state{fd, POLLIN, 0};
    if (::poll(&state, 1, 0) > 0) return;
    await(observer.whenBecomesReadable());
  }
}

}  // namespace gangway::internal
