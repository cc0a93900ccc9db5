// ProcessCluster: a controller and executors of CPU devices as processes. Any client joins by
// address, and the processes can be looked up, stopped and killed. The cluster can keep
// checkpoints, in a folder that ends with it.
//
// Threads: created and destroyed on a thread that outlives it: its processes die with that thread.
// Errors: throws if the cluster does not come up in ten seconds.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"

namespace gangway::bench {

class ProcessCluster {
 public:
  struct Shape {
    int executors = 2;
    int devices = 1;          // Number of each executor's devices.
    int64_t memory_mib = 64;  // Memory of each device.
  };
  explicit ProcessCluster(const Shape& shape);

  const std::string& address() const { return address_; }
  static std::string host_name(int executor) { return cat("host-", executor); }
  pid_t controller() const { return controller_->pid(); }
  pid_t executor(const std::string& host) const;
  void kill_executor(const std::string& host);
  // Starts an executor with the name of one that was killed. Does not wait for it.
  void start_again(const std::string& host);
  // The controller's log so far.
  std::string log() const { return log_.text(); }

 private:
  size_t index_of(const std::string& host) const;
  std::unique_ptr<ChildProcess> start_executor(size_t index) const;

  const Shape shape_;
  const TempDir checkpoints_{"gangway-bench"};
  AnonymousFile log_{"controller.log"};
  std::string address_;
  std::unique_ptr<ChildProcess> controller_;
  std::vector<std::unique_ptr<ChildProcess>> executors_;
};

// Runs `gangway ...` in a process that ends with this one; its output goes to `log`.
std::unique_ptr<ChildProcess> start_tool(std::vector<std::string> arguments,
                                         const AnonymousFile& log);

// Calls `wanted` every 2 ms until it is true; returns false if it was not within the time.
bool wait_until(int64_t limit_ms, const std::function<bool()>& wanted);
void pause_ms(int64_t ms);

}  // namespace gangway::bench
