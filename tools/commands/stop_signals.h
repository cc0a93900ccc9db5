// StopSignals: the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (the terminal is gone) asks a command
// to stop, and says so; a second SIGINT or SIGTERM ends the process, as it would have without this.
// SIGHUP comes several times, or beside SIGTERM, where a session ends: it is never the second one.
//
// While it lives, a thread of its own takes these signals, whatever the command does meanwhile;
// they are blocked in the thread that creates it and in all threads that are started later. One
// that the process was told to ignore stays ignored.
// Threads: created and destroyed by one thread, before the command starts any other one;
// is_asked() anywhere.
#pragma once

#include <signal.h>

#include <atomic>
#include <string>

#include "runtime/os/thread.h"

namespace gangway::tool {

class StopSignals {
 public:
  // `notice` goes to standard error, as a line, when the first one arrives.
  explicit StopSignals(std::string notice);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool is_asked() const { return is_asked_; }

 private:
  void take_signals();

  const std::string notice_;
  sigset_t before_{};    // The creating thread's mask.
  int signals_fd_ = -1;  // Of the signals.
  int end_fd_ = -1;      // Readable when this object ends.
  std::atomic<bool> is_asked_ = false;
  Thread thread_;
};

}  // namespace gangway::tool
