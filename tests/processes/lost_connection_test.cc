// A client between processes as users start them, whose connections end while both processes live,
// and one whose controller is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <mutex>
#include <set>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::lost_connection_test {
namespace {

using testing::HasSubstr;

// Ends this process's connections to a port of this machine, as a network that drops them would.
// Returns their number.
int end_connections_to(const std::string& address) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  std::vector<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    const bool is_there = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (is_there && peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
      sockets.push_back(fd);
  }
  for (const int fd : sockets) shutdown(fd, SHUT_RDWR);
  return static_cast<int>(sockets.size());
}

Program counting() {
  ProgramBuilder b("counting", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({8})));
  const Value next = w + b.input("x", f32({8}));
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

HostTensor ones() { return HostTensor::of<float>({8}, std::vector<float>(8, 1.0f)); }

class LostConnectionTest : public testing::Test {
 protected:
  LostConnectionTest() {
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
    executor_.emplace(
        ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                   "--devices", "2", "--memory", std::to_string(64 << 20)},
                     .output_file = executor_said_.path()});
    client_ = connect(address_, {.on_warning = [this](const std::string& line) {
                        const std::lock_guard lock(mutex_);
                        told_.insert(line);
                      }});
  }

  // Allocates a slice as soon as the executor has registered.
  Slice allocate() {
    std::optional<Slice> slice;
    EXPECT_TRUE(eventually([&] {
      try {
        slice = client_->allocate({.devices = 2});
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kBug) throw;
      }
      return slice.has_value();
    })) << executor_said_.text();
    return slice.value();
  }
  std::set<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  const AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_{{.arguments = {tests::gangway_tool(), "controller", "--listen",
                                          "127.0.0.1:0", "--lease", "50"},
                            .output_file = said_.path()}};
  std::string address_;
  std::optional<ChildProcess> executor_;
  std::mutex mutex_;
  std::set<std::string> told_;
  std::optional<Client> client_;
};

TEST_F(LostConnectionTest, AClientAttachesAgainAndLosesNothing) {
  {
    const Slice slice = allocate();
    const Executable step = slice.compile(counting());
    const Array x = slice.from_host(ones());
    float expected = 0;
    int ended = 0;
    for (int round = 0; round < 10; ++round) {
      std::vector<gangway::Run> runs;
      for (int i = 0; i < 8; ++i) {
        if (i == round % 8) ended += end_connections_to(address_);
        runs.push_back(step.run({{"x", x}}));
      }
      for (const gangway::Run& run : runs) EXPECT_EQ(run["sum"].item<float>(), expected += 8);
      EXPECT_EQ(slice.compile(counting()).run({{"x", ones()}})["sum"].item<float>(), expected += 8);
    }
    EXPECT_GE(ended, 10);
    EXPECT_EQ(slice.read_state("w").as<float>()[0], expected / 8);
  }
  EXPECT_EQ(client_->status().programs.size(), 1u);
  ASSERT_EQ(told().size(), 1u);
  EXPECT_THAT(*told().begin(), HasSubstr(cat("the connection to the controller at ", address_,
                                             " was lost: trying to attach again for 50")));
}

TEST_F(LostConnectionTest, AKilledControllerIsNotWaitedForAsLongAsTheLease) {
  const Slice slice = allocate();
  const Executable step = slice.compile(counting());
  step.run({{"x", ones()}}).wait();
  kill(controller_.pid(), SIGKILL);
  const Error error = error_of([&] {
    while (true) step.run({{"x", ones()}}).wait();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("the controller is gone: its process has ended"));
  EXPECT_FALSE(controller_.wait().ok());
}

}  // namespace
}  // namespace gangway::lost_connection_test
