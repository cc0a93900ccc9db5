// Processes that are stopped: a controller costs only the time that it stands still, an executor is
// suspect first and then lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <memory>
#include <optional>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/processes/process_tree.h"
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
    std::vector<std::string> arguments = {GANGWAY_TOOL, "controller", "--listen", "127.0.0.1:0"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    controller.emplace(ChildOptions{.arguments = arguments, .output_file = said.path()});
    EXPECT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
    for (const char* name : {"host-0", "host-1"}) {
      executors.push_back(std::make_unique<ChildProcess>(
          ChildOptions{.arguments = {GANGWAY_TOOL, "executor", "--connect", address, "--name", name,
                                     "--memory", std::to_string(64 << 20)},
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

HostStatus status_of(const Client& client, const std::string& host) {
  for (const HostStatus& status : client.status().hosts) {
    if (status.name == host) return status;
  }
  return {};
}

TEST(StoppedProcessTest, AControllerThatStandsStillForFifteenSecondsLosesNoHost) {
  Processes processes;
  const Client client = connect(processes.address);
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
  const ClusterStatus status = client.status();
  EXPECT_EQ(status.hosts.size(), 2u);
  EXPECT_THAT(status.metrics, HasSubstr("gangway_hosts_lost_total 0\n"));
  EXPECT_THAT(processes.said.text(), testing::Not(HasSubstr("suspect")));
}

TEST(StoppedProcessTest, AnExecutorThatStandsStillIsNamedSuspectAndThenLost) {
  Processes processes({"--host-timeout", "5"});
  const Client client = connect(processes.address);
  const Slice both = client.allocate({.devices = 2});
  const Executable step = both.compile(add_up(both.mesh({{"data", 2}})));
  EXPECT_EQ(step.run({{"x", kOnes}})["sum"].item<float>(), 16.0f);
  kill(processes.executors[1]->pid(), SIGSTOP);
  const gangway::Run run = step.run({{"x", kOnes}});
  ASSERT_TRUE(eventually([&] { return status_of(client, "host-1").suspect_ms >= 2000; }));
  EXPECT_EQ(status_of(client, "host-0").suspect_ms, 0);
  EXPECT_FALSE(run.done());
  EXPECT_THAT(client.status().metrics, HasSubstr("gangway_host_suspect{host=\"host-1\"} 1\n"));
  try {
    run.wait();
    ADD_FAILURE() << "it did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("\"host-1\" is gone: it has said nothing for 5000 ms"));
  }
  EXPECT_THAT(processes.said.text(), HasSubstr("host is suspect"));
  EXPECT_THAT(processes.said.text(), HasSubstr("host is lost"));
  kill(processes.executors[1]->pid(), SIGCONT);
}

}  // namespace
}  // namespace gangway
