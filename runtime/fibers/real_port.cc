// The real port: KJ's event port for Linux (epoll), sockets and the monotonic clock.
#include <kj/async-unix.h>

#include "runtime/base/clock_ns.h"
#include "runtime/fibers/port.h"

namespace gangway::internal {
namespace {

// kj::setupAsyncIo() hides the event loop that it creates, but the reactor needs it: it bounds each
// run() of the loop, so that a flood of calls can't starve the fibers. The loop's executor has a
// private member that refers to it, and C++ allows naming a private member in an explicit
// instantiation.
kj::EventLoop& loop_of(const kj::Executor& executor);
template <auto kGetLoop>
struct Reveal {
  friend kj::EventLoop& loop_of(const kj::Executor& executor) { return (executor.*kGetLoop)(); }
};
template struct Reveal<&kj::Executor::getLoop>;

class RealPort final : public Port {
 public:
  ~RealPort() noexcept override {}
  RealPort() : io_(kj::setupAsyncIo()), loop_(loop_of(kj::getCurrentThreadExecutor())) {}

  kj::EventLoop& loop() override { return loop_; }
  kj::Timer& timer() override { return io_.unixEventPort.getTimer(); }
  kj::LowLevelAsyncIoProvider* sockets() override { return io_.lowLevelProvider.get(); }
  kj::UnixEventPort* unix_port() override { return &io_.unixEventPort; }
  int64_t now_ns() const override { return clock_ns(CLOCK_MONOTONIC); }
  int64_t wall_ns() const override { return clock_ns(CLOCK_REALTIME); }
  void block() override { io_.unixEventPort.wait(); }
  void poll() override { io_.unixEventPort.poll(); }
  void wake() const override { io_.unixEventPort.wake(); }

 private:
  kj::AsyncIoContext io_;
  kj::EventLoop& loop_;
};

}  // namespace

std::unique_ptr<Port> make_real_port() { return std::make_unique<RealPort>(); }

}  // namespace gangway::internal
