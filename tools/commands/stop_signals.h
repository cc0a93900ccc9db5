// StopSignals: the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (the terminal is gone) asks a command
// to stop, and prints a notice. A second SIGINT or SIGTERM ends the process, as it would have
// without this object. SIGHUP never counts as the second one, since it may come several times, or
// beside SIGTERM, when a session ends.
//
// While the object lives, a thread of its own takes these signals, whatever the command does
// meanwhile. They are blocked in the thread that creates it and in all threads that are started
// later. A signal that the process was started to ignore stays ignored.
// Threads: created and destroyed by one thread, before the command starts any other thread;
// is_asked() anywhere.
#pragma once

#include <signal.h>

#include <atomic>
#include <string>

#include "runtime/os/thread.h"

namespace gangway::tool {

class StopSignals {
 public:
  // `notice` is written to standard error, as a line, when the first signal arrives.
  explicit StopSignals(std::string notice);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool is_asked() const { return is_asked_; }

 private:
  void take_signals();

  const std::string notice_;
  sigset_t before_{};    // The creating thread's mask.
  int signals_fd_ = -1;  // A signalfd.
  int end_fd_ = -1;      // Readable when this object ends.
  std::atomic<bool> is_asked_ = false;
  Thread thread_;
};

}  // namespace gangway::tool
