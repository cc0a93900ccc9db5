// A cluster of real processes: it starts, trains, loses members, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gangway.h"

namespace gangway {
namespace {

using testing::HasSubstr;

Program count_up(const Mesh& mesh) {
  ProgramBuilder b("count_up", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value next = w + sum(x, {0});
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

HostTensor ones() { return HostTensor::of<float>({16, 8}, std::vector<float>(128, 1.0f)); }

// Descendants of a process, by /proc.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    std::getline(stat, line);
    const size_t end = line.rfind(')');
    if (end == line.npos || end + 4 > line.size()) continue;
    if (line[end + 2] == 'Z') continue;  // Ended, not yet reaped.
    if (std::stol(line.substr(end + 4)) == parent) children.push_back(std::stoi(name));
  }
  return children;
}

bool is_executor(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  return line.find("executor") != line.npos && line.find(name) != line.npos;
}

TEST(LocalClusterTest, ProcessesTrainAsOneProcessDoes) {
  Client client = connect("local:2x2", {.memory_bytes = 64 << 20});
  EXPECT_EQ(children_of(getpid()).size(), 3u);
  Slice slice = client.allocate({.devices = 4});
  Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(step.run({{"x", ones()}})["sum"].item<float>(), 128.0f * static_cast<float>(i));
  }
  EXPECT_THAT(slice.read_state("w").as<float>(), testing::Each(160.0f));
}

TEST(LocalClusterTest, NoProcessIsLeftWhenTheClientIsClosed) {
  Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
  ASSERT_EQ(children_of(getpid()).size(), 3u);
  client.close();
  EXPECT_EQ(children_of(getpid()).size(), 0u);
}

TEST(LocalClusterTest, AKilledExecutorFailsTheRunsThatUseItAndIsNamed) {
  Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = 2});
  Executable step = slice.compile(count_up(slice.mesh({{"data", 2}})));
  step.run({{"x", ones()}}).wait();
  for (pid_t pid : children_of(getpid())) {
    if (is_executor(pid, "host-1")) kill(pid, SIGKILL);
  }
  try {
    for (int i = 0; i < 1000; ++i) step.run({{"x", ones()}}).wait();
    FAIL() << "no run failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("host-1"));
  }
}

// Forks a launcher that starts a cluster and waits; the kernel must take the cluster with it.
TEST(LocalClusterTest, ALauncherThatIsKilledLeavesNoProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    const Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
    const char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::vector<pid_t> members = children_of(launcher);
  EXPECT_EQ(members.size(), 3u);
  kill(launcher, SIGKILL);
  ASSERT_EQ(waitpid(launcher, nullptr, 0), launcher);
  for (pid_t member : members) {
    // The kernel's signal is asynchronous: look until it is gone, for two seconds at most.
    const timespec tick{0, 2'000'000};
    bool gone = false;
    for (int i = 0; i < 1000 && !gone; ++i) {
      // A process that ended and is not reaped yet has no command line.
      std::ifstream file("/proc/" + std::to_string(member) + "/cmdline");
      gone = file.get() == std::ifstream::traits_type::eof();
      if (!gone) nanosleep(&tick, nullptr);
    }
    EXPECT_TRUE(gone) << "process " << member;
  }
}

}  // namespace
}  // namespace gangway
