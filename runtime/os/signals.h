// Signals: Ctrl-C and its like as events of a reactor.
//
// While it lives, the chosen signals no longer end the process; each arrives through next(). A
// second one while the first is not yet taken waits in line.
// Threads: the reactor's thread; at most one Signals in a process at a time (handlers are the
// process's).
// Ownership: destroying it restores the earlier handlers.
//
// Example:
//   Signals signals(reactor, {SIGINT, SIGTERM});
//   int number = signals.next();  // Suspends.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/fibers/reactor.h"

namespace gangway {

class Signals {
 public:
  Signals(Reactor& reactor, std::initializer_list<int> numbers);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Suspends until a signal arrives, and returns its number.
  int next();
  // Whether this process ignored the signal before, as nohup makes it ignore SIGHUP.
  bool was_ignored(int number) const;

 private:
  Reactor& reactor_;
  int read_fd_ = -1;
  int write_fd_ = -1;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace gangway
