// StretchWatch: for how long a reactor was at most held up by what it ran between two looks at its
// connections: somebody's work that belongs beside it.
//
// A stretch is one turn of the reactor. What the system says that its thread waited for a core
// meanwhile is not counted; of what it waited in the kReadEveryNs before a stretch, some may be
// taken for that, so that a stretch is told too short by so much at most. Where the system does not
// say it (/proc/thread-self/schedstat), all is counted.
//
// Threads: the reactor's.
// Errors: none. A stretch above the limit, where there is one, ends the process (SIGABRT) and says
// so: it is for tests, which set GANGWAY_REACTOR_LIMIT_MS.
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

  const int64_t limit_ns_;  // 0: none.
  int schedstat_ = -1;
  int64_t begin_ns_ = 0;
  int64_t waited_ns_ = 0;  // For a core, since the thread began, at read_at_ns_.
  int64_t read_at_ns_ = 0;
  int64_t longest_ns_ = 0;
};

}  // namespace gangway::internal
