// Processes that are stopped: a stopped controller costs only the time for which it is stopped; a
// stopped executor is suspect first and then lost. Programs on other hosts go on meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <memory>
#include <optional>
#include <regex>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::HasSubstr;

Program add_up(const Mesh& mesh) {
  ProgramBuilder b("add_up", mesh);
  Value x = b.input("x", f32({16}), {{"data", shard(0)}});
  b.output("sum", sum(x, {0}));
  return b.build();
}

const HostTensor kOnes = HostTensor::of<float>({16}, std::vector<float>(16, 1.0f));

// A controller and two executors of one device each, as processes.
struct Processes {
  explicit Processes(std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {tests::gangway_tool(), "controller", "--listen",
                                          "127.0.0.1:0"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    controller.emplace(ChildOptions{.arguments = arguments, .output_file = said.path()});
    EXPECT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
    for (const char* name : {"host-0", "host-1"}) {
      executors.push_back(std::make_unique<ChildProcess>(
          ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect", address,
                                     "--name", name, "--memory", std::to_string(64 << 20)},
                       .output_file = executor_log.path()}));
    }
    const Client client = connect(address);
    EXPECT_TRUE(eventually([&] { return client.status().hosts.size() == 2; }));
  }

  AnonymousFile said{"controller.log"}, executor_log{"executor.log"};
  std::string address;
  std::optional<ChildProcess> controller;
  std::vector<std::unique_ptr<ChildProcess>> executors;
};

// A program on one device, which counts its runs on the device itself: none may fail, be lost or be
// repeated, whatever happens to other programs.
class Bystander {
 public:
  explicit Bystander(const Client& client) : slice_(client.allocate({.devices = 1})) {
    ProgramBuilder b("bystander", slice_.mesh({{"data", 1}}));
    Value count = b.state("count", zeros(f32()));
    Value next = timed(count, 500) + 1.0;
    b.update(count, next);
    b.output("count", next);
    step_ = slice_.compile(b.build());
  }
  std::string host() const { return step_->memory().devices[0].host; }
  void run() { EXPECT_EQ((*step_).run()["count"].item<float>(), static_cast<float>(++runs_)); }
  // Runs until `wanted` returns true.
  template <class Wanted>
  [[nodiscard]] bool runs_until(const Wanted& wanted) {
    return eventually([&] {
      run();
      return wanted();
    });
  }

 private:
  Slice slice_;
  std::optional<Executable> step_;
  int64_t runs_ = 0;
};

// The number after `name` in the log's line with `message`; -1 if there is none.
int64_t logged(const AnonymousFile& log, const std::string& message, const std::string& name) {
  const std::string text = output_of(log);
  std::smatch found;
  const std::regex line(message + "[^\n]* " + name + "=([0-9]+)");
  return std::regex_search(text, found, line) ? std::stoll(found[1]) : -1;
}

HostStatus status_of(const Client& client, const std::string& host) {
  for (const HostStatus& status : client.status().hosts) {
    if (status.name == host) return status;
  }
  return {};
}

TEST(StoppedProcessTest, AControllerThatStandsStillForFifteenSecondsLosesNothing) {
  Processes processes;
  const Client client = connect(processes.address);
  Bystander bystander(client);
  bystander.run();
  const Slice both = client.allocate({.devices = 2});
  const Executable step = both.compile(add_up(both.mesh({{"data", 2}})));
  EXPECT_EQ(step.run({{"x", kOnes}})["sum"].item<float>(), 16.0f);
  kill(processes.controller->pid(), SIGSTOP);
  const gangway::Run run = step.run({{"x", kOnes}});
  const timespec stopped{15, 0};
  nanosleep(&stopped, nullptr);
  EXPECT_FALSE(run.done());
  kill(processes.controller->pid(), SIGCONT);
  EXPECT_EQ(run["sum"].item<float>(), 16.0f);
  EXPECT_EQ(step.run({{"x", kOnes}})["sum"].item<float>(), 16.0f);
  bystander.run();
  const ClusterStatus status = client.status();
  EXPECT_EQ(status.hosts.size(), 2u);
  EXPECT_THAT(status.metrics, HasSubstr("gangway_hosts_lost_total 0\n"));
  EXPECT_THAT(processes.said.text(), testing::Not(HasSubstr("suspect")));
  EXPECT_GE(logged(processes.said, "this process stood still", "for_ms"), 14'000);
}

TEST(StoppedProcessTest, AnExecutorThatStandsStillIsNamedSuspectAndThenLostWhileOthersGoOn) {
  Processes processes({"--host-timeout", "5"});
  const Client client = connect(processes.address);
  Bystander bystander(client);
  const size_t culprit = bystander.host() == "host-0" ? 1 : 0;
  const std::string name = cat("host-", culprit);
  const Slice both = client.allocate({.devices = 2});
  const Executable step = both.compile(add_up(both.mesh({{"data", 2}})));
  EXPECT_EQ(step.run({{"x", kOnes}})["sum"].item<float>(), 16.0f);
  kill(processes.executors[culprit]->pid(), SIGSTOP);
  const gangway::Run run = step.run({{"x", kOnes}});
  ASSERT_TRUE(bystander.runs_until([&] { return status_of(client, name).suspect_ms >= 2000; }));
  EXPECT_EQ(status_of(client, bystander.host()).suspect_ms, 0);
  EXPECT_FALSE(run.done());
  EXPECT_THAT(client.status().metrics,
              HasSubstr(cat("gangway_host_suspect{host=\"", name, "\"} 1\n")));
  ASSERT_TRUE(bystander.runs_until([&] { return run.done(); }));
  try {
    run.wait();
    ADD_FAILURE() << "it did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
    EXPECT_THAT(error.what(),
                HasSubstr(cat("\"", name, "\" is gone: it has said nothing for 5000 ms")));
  }
  bystander.run();
  // The controller's own delays are not counted as silence.
  const int64_t silent_ms = logged(processes.said, "host is suspect", "silent_ms");
  EXPECT_GE(silent_ms, 2000);
  EXPECT_LE(silent_ms, 2600);
  EXPECT_THAT(processes.said.text(), HasSubstr("host lost"));
  kill(processes.executors[culprit]->pid(), SIGCONT);
}

}  // namespace
}  // namespace gangway
