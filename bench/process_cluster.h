// ProcessCluster: a controller and executors of CPU devices as processes, which any client joins by
// address and whose processes can be looked up, stopped and killed. The cluster can keep
// checkpoints, in a folder that ends with it.
//
// Threads: created and destroyed on a thread that outlives it: its processes die with that one.
// Errors: throws where it does not come up in ten seconds.
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
    int devices = 1;          // Of each.
    int64_t memory_mib = 64;  // Of each device.
  };
  explicit ProcessCluster(const Shape& shape);

  const std::string& address() const { return address_; }
  static std::string host_name(int executor) { return cat("host-", executor); }
  pid_t controller() const { return controller_->pid(); }
  pid_t executor(const std::string& host) const;
  void kill_executor(const std::string& host);
  // Under the same name, in place of one that was killed. Does not wait for it.
  void start_again(const std::string& host);
  // What the controller has logged so far.
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

// `gangway ...`, in a process that ends with this one; what it says goes to `log`.
std::unique_ptr<ChildProcess> start_tool(std::vector<std::string> arguments,
                                         const AnonymousFile& log);

// Looks every 2 ms; false: not within the time.
bool wait_until(int64_t limit_ms, const std::function<bool()>& wanted);
void pause_ms(int64_t ms);

}  // namespace gangway::bench
