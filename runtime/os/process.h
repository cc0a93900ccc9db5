// ChildProcess: a program started by this one that can't outlive it.
//
// The child is tied to the parent twice, since neither tie holds in every case. The kernel kills
// the child when the thread that started it dies (PR_SET_PDEATHSIG, checked against the race with a
// parent that is already dead). And the child holds the reading end of a lifeline pipe whose other
// end only the parent has (see Lifeline), which also ends the child's own children. The child gets
// a process group of its own, so that Ctrl-C in a terminal reaches only the launcher; it gets
// default signal handling, and of the parent's open files only the standard ones.
//
// Threads: start() on a long-lived thread: the child dies with it. exited() needs a reactor on that
// thread.
// Ownership: destroying the handle kills (SIGKILL) and reaps the child.
// Errors: kInvalid when the program can't be started (missing, not executable), with the system's
// reason.
//
// Example:
//   ChildProcess child({.arguments = {"/usr/bin/gangway", "executor"},
//                       .output_file = "executor.log"});
//   child.exited(reactor).await();
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/fibers/future.h"

namespace gangway {

struct ChildOptions {
  std::vector<std::string> arguments;  // The program first; $PATH is searched.
  std::vector<std::pair<std::string, std::string>> environment;  // Added to this process's.
  std::string output_file;  // Standard output and error, appended; empty: this process's.
  // Reactor of the fiber that starts the program: other fibers run until the system has loaded the
  // program, which may take long. Null: the thread waits for that.
  Reactor* reactor = nullptr;
};

struct ExitStatus {
  int code = 0;    // Exit status; meaningless when signalled.
  int signal = 0;  // Signal that killed it, or 0.
  bool ok() const { return code == 0 && signal == 0; }
};
// "exited with status 3", "was killed by signal 9 (Killed)".
std::string to_string(const ExitStatus& status);

class ChildProcess {
 public:
  explicit ChildProcess(ChildOptions options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Does nothing if the child has ended already.
  void signal(int number);
  // Blocks the thread until the child has ended.
  ExitStatus wait();
  // Empty while the child runs.
  std::optional<ExitStatus> poll();
  // Ready when the child has ended. The ChildProcess must outlive the wait.
  Future<ExitStatus> exited(Reactor& reactor);

 private:
  pid_t pid_ = -1;
  int pid_fd_ = -1;       // Readable once the child has ended.
  int lifeline_fd_ = -1;  // Closing it tells the child that its parent is gone.
  std::optional<ExitStatus> status_;
};

// In a child: ready when the parent that started this process as a ChildProcess has gone; never,
// when there is none.
Future<void> parent_gone(Reactor& reactor);

}  // namespace gangway
