// A client that trains a program of `timed` steps in a thread of its own, as fast as its runs in
// flight allow. It is a load whose device time is known.
//
// Threads: the constructor, the destructor and the getters, any one thread.
// Errors: the constructor throws those of the client. The first error of a run ends the training,
// and is kept.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "client/client.h"
#include "runtime/os/thread.h"

namespace gangway::bench {

// One run: `pieces` pieces of `piece_us` each. Between two pieces devices may go over to other
// programs.
struct TimedSteps {
  int64_t pieces = 1;
  int64_t piece_us = 500;
  int64_t us() const { return pieces * piece_us; }
};

// A program on every device of the mesh.
Program timed_program(const std::string& name, const Mesh& mesh, const TimedSteps& steps);

class TimedClient {
 public:
  struct Options {
    std::string name;
    double weight = 1;
    int64_t devices = 1;
    TimedSteps steps;
    int64_t runs_ahead = 8;
  };
  TimedClient(const std::string& address, const Options& options);
  ~TimedClient();
  TimedClient(const TimedClient&) = delete;

  const std::string& host() const { return host_; }  // Host of its first device.
  int64_t runs_done() const { return done_.load(); }
  // The training ends once this is true.
  bool failed() const { return failed_.load(); }
  std::string error() const { return failed() ? error_ : std::string(); }

 private:
  void train();

  const Options options_;
  std::optional<Client> client_;
  std::optional<Executable> program_;
  std::string host_;
  std::atomic<int64_t> done_{0};
  std::atomic<bool> failed_{false}, stop_{false};
  std::string error_;  // Written before failed_.
  Thread thread_;
};

}  // namespace gangway::bench
