// Port: the event source that a reactor's thread waits on, either the operating system or virtual
// time.
//
// Internal to runtime/.
// Threads: the reactor's thread, save wake() and, for the real port, now_ns() and wall_ns().
#pragma once

#include <kj/async-io.h>
#include <kj/async.h>
#include <kj/timer.h>

#include <cstdint>
#include <memory>

namespace gangway::internal {

inline kj::TimePoint to_kj_time(int64_t ns) {
  return kj::origin<kj::TimePoint>() + ns * kj::NANOSECONDS;
}
inline int64_t from_kj_time(kj::TimePoint time) {
  return (time - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
}

class Port {
 public:
  virtual ~Port() = default;

  virtual kj::EventLoop& loop() = 0;
  virtual kj::Timer& timer() = 0;
  // Sockets of KJ. Both are null in a simulation.
  virtual kj::LowLevelAsyncIoProvider* sockets() = 0;
  virtual kj::UnixEventPort* unix_port() = 0;
  virtual int64_t now_ns() const = 0;
  virtual int64_t wall_ns() const = 0;

  // Waits until an event is queued, a timer is due or wake() is called. Throws when that can't
  // happen any more.
  virtual void block() = 0;
  // Like block(), but does not wait and does not move virtual time.
  virtual void poll() = 0;
  // Any thread: ends a block(), the current or the next one.
  virtual void wake() const = 0;
};

std::unique_ptr<Port> make_real_port();

}  // namespace gangway::internal
