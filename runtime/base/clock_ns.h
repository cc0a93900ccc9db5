// Readings of the system's clocks. Whoever runs on a reactor asks its Clock, which a simulation
// replaces (runtime/fibers/clock.h).
//
// Threads: any.
#pragma once

#include <time.h>

#include <cstdint>

namespace gangway {

// `id`: CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID.
inline int64_t clock_ns(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace gangway
