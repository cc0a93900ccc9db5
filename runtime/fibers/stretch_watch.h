// StretchWatch: measures the longest time that a reactor's own work kept it from looking at its
// connections. Longer work belongs on another thread.
//
// A stretch is one turn of the reactor. The time that its thread waited for a core meanwhile, which
// the system reports in /proc/thread-self/schedstat, is not counted. That time may include waits of
// the kReadEveryNs before the stretch, so a stretch may be measured too short by at most that much.
// Where the system has no schedstat, the whole stretch is counted.
//
// Threads: the reactor's.
// Errors: none. With a limit, a longer stretch prints a message and ends the process (SIGABRT). The
// limit is for tests, which set GANGWAY_REACTOR_LIMIT_MS.
// Cost: 50 ns a turn, and 1 us each kReadEveryNs.
#pragma once

#include <cstdint>

namespace gangway::internal {

class StretchWatch {
 public:
  static constexpr int64_t kReadEveryNs = 10'000'000;

  StretchWatch();
  ~StretchWatch();
  StretchWatch(const StretchWatch&) = delete;

  void begin(int64_t now_ns);
  void end(int64_t now_ns);
  int64_t longest_ns() const { return longest_ns_; }

 private:
  int64_t read_waited_ns() const;

  const int64_t limit_ns_;  // 0: no limit.
  int schedstat_ = -1;
  int64_t begin_ns_ = 0;
  int64_t waited_ns_ = 0;  // Wait for a core since the thread began, read at read_at_ns_.
  int64_t read_at_ns_ = 0;
  int64_t longest_ns_ = 0;
};

}  // namespace gangway::internal
