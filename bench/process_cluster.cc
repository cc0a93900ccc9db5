#include "bench/process_cluster.h"

#include <signal.h>
#include <time.h>

#include "bench/chain.h"
#include "tests/support/places.h"

namespace gangway::bench {
namespace {

constexpr char kLocalPort[] = "127.0.0.1:";

// Returns the line on which the controller prints its address: a sanitizer may print something
// before it. Empty until the whole line is there.
std::string address_in(const std::string& text) {
  const size_t begin = text.find(kLocalPort);
  const size_t end = begin == text.npos ? text.npos : text.find('\n', begin);
  return end == text.npos ? "" : text.substr(begin, end - begin);
}

}  // namespace

void pause_ms(int64_t ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

bool wait_until(int64_t limit_ms, const std::function<bool()>& wanted) {
  const double until_us = now_us() + static_cast<double>(limit_ms) * 1000;
  while (!wanted()) {
    if (now_us() > until_us) return false;
    pause_ms(2);
  }
  return true;
}

std::unique_ptr<ChildProcess> start_tool(std::vector<std::string> arguments,
                                         const AnonymousFile& log) {
  arguments.insert(arguments.begin(), tests::gangway_tool());
  return std::make_unique<ChildProcess>(
      ChildOptions{.arguments = std::move(arguments), .output_file = log.path()});
}

ProcessCluster::ProcessCluster(const Shape& shape)
    : shape_(shape),
      controller_(start_tool({"controller", "--listen", cat(kLocalPort, 0), "--checkpoint-dir",
                              checkpoints_.path().string()},
                             log_)) {
  constexpr int64_t kStartMs = 10'000;
  wait_until(kStartMs, [&] {
    address_ = address_in(log());
    return !address_.empty();
  });
  for (int i = 0; i < shape.executors; ++i)
    executors_.push_back(start_executor(static_cast<size_t>(i)));
  const Client client = connect(address_);
  const bool all = wait_until(kStartMs, [&] {
    return client.status().hosts.size() == static_cast<size_t>(shape.executors);
  });
  GW_REQUIRE(all, "cluster of processes: it did not come up: ", log());
}

std::unique_ptr<ChildProcess> ProcessCluster::start_executor(size_t index) const {
  return start_tool(
      {"executor", "--connect", address_, "--name", host_name(static_cast<int>(index)), "--devices",
       std::to_string(shape_.devices), "--threads", "1", "--memory",
       std::to_string(shape_.memory_mib << 20)},
      log_);
}

size_t ProcessCluster::index_of(const std::string& host) const {
  for (size_t i = 0; i < executors_.size(); ++i) {
    if (host_name(static_cast<int>(i)) == host) return i;
  }
  throw Error(ErrorKind::kInvalid, cat("cluster of processes: there is no host \"", host, "\""));
}

pid_t ProcessCluster::executor(const std::string& host) const {
  return executors_[index_of(host)]->pid();
}

void ProcessCluster::kill_executor(const std::string& host) {
  ChildProcess& process = *executors_[index_of(host)];
  process.signal(SIGKILL);
}

void ProcessCluster::start_again(const std::string& host) {
  const size_t index = index_of(host);
  executors_[index]->wait();
  executors_[index] = start_executor(index);
}

}  // namespace gangway::bench
