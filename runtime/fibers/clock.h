// Clock: the only source of time outside this room; real, or virtual in a simulated reactor.
//
// Units: nanoseconds. now_ns() counts from an arbitrary start (CLOCK_MONOTONIC; the simulation's
// start time).
// Threads: now_ns() and wall_ns() of a real clock anywhere; all else on the reactor's thread.
// Cost: now_ns() about 20 ns; a real sleep ends up to a millisecond late (the kernel's timer), a
// virtual one exactly.
//
// Example:
//   Clock& clock = reactor.clock();
//   clock.sleep_for(5ms);  // Suspends this fiber, not the thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace gangway {

using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;

  virtual int64_t now_ns() const = 0;
  // Since 1970, for people and file names; may jump. In a simulation: a fixed date plus virtual
  // time.
  virtual int64_t wall_ns() const = 0;
  // Suspends.
  virtual void sleep_until_ns(int64_t time_ns) = 0;

  // Suspends.
  void sleep_for(Duration duration) { sleep_until_ns(now_ns() + duration.count()); }
};

}  // namespace gangway
