// Whatever ends a launcher or a client: no process, no file and no memory of it stays behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

// Forks a process that runs `body`, reports that through a pipe, and waits to be killed.
template <class Body>
pid_t fork_until_ready(const Body& body) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    try {
      const auto kept = body();
      const char byte = 1;
      if (write(ready[1], &byte, 1) == 1) pause();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1) << "it failed before it was ready";
  close(ready[0]);
  return pid;
}

std::vector<std::string> gangway_names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().find("gangway") != std::string::npos) {
      names.push_back(entry.path().filename());
    }
  }
  return names;
}

class KilledLauncherTest : public testing::TestWithParam<int> {};

void expect_nothing_left(pid_t launcher, int signal, const std::filesystem::path& temp) {
  const std::vector<pid_t> members = children_of(launcher);
  EXPECT_EQ(members.size(), 3u);
  kill(launcher, signal);
  for (pid_t member : members) {
    EXPECT_TRUE(eventually([member] { return is_gone(member); })) << "process " << member;
  }
  EXPECT_TRUE(eventually([launcher] { return is_gone(launcher); }));
  EXPECT_TRUE(std::filesystem::is_empty(temp));
  EXPECT_THAT(gangway_names_in("/dev/shm"), testing::IsEmpty());
}

TEST_P(KilledLauncherTest, AProgramLeavesNoProcessFileOrMemory) {
  TempDir temp;
  const pid_t launcher = fork_until_ready([&] {
    setenv("TMPDIR", temp.path().c_str(), 1);
    return connect("local:2x1", {.memory_bytes = 64 << 20});
  });
  expect_nothing_left(launcher, GetParam(), temp.path());
  waitpid(launcher, nullptr, 0);
}

TEST_P(KilledLauncherTest, GangwayTrainLeavesNoProcessFileOrMemory) {
  TempDir temp, out;
  std::filesystem::create_directories(out.path());
  std::ofstream(out.path() / "text.txt") << std::string(200'000, 'a');
  AnonymousFile log("train.log");
  ChildProcess train({.arguments = {tests::gangway_tool(), "train", "quickstart", "--connect",
                                    "local:2x1", "--text", (out.path() / "text.txt").string(),
                                    "--out", (out.path() / "out").string(), "--steps", "1000000"},
                      .environment = {{"TMPDIR", temp.path().string()}},
                      .output_file = log.path()});
  ASSERT_TRUE(eventually([&] { return children_of(train.pid()).size() == 3; })) << log.text();
  expect_nothing_left(train.pid(), GetParam(), temp.path());
  EXPECT_EQ(train.wait().ok(), GetParam() == SIGINT) << log.text();  // SIGINT stops it well.
}

INSTANTIATE_TEST_SUITE_P(Signals, KilledLauncherTest, testing::Values(SIGKILL, SIGINT),
                         [](const auto& test) {
                           return test.param == SIGKILL ? "Killed" : "Interrupted";
                         });

Program with_state(const Mesh& mesh, int64_t bytes) {
  ProgramBuilder b("with_state", mesh);
  Value w = b.state("w", zeros(f32({bytes / 4})));
  b.output("sum", sum(w, {0}));
  return b.build();
}

TEST(KilledClientTest, ResourcesOfAKilledClientAreFreeForTheNext) {
  constexpr int64_t kMemory = 64 << 20;
  AnonymousFile said("controller.log"), executor_log("executor.log");
  ChildProcess controller(
      {.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
       .output_file = said.path()});
  std::string address;
  ASSERT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
  ChildProcess executor({.arguments = {tests::gangway_tool(), "executor", "--connect", address,
                                       "--devices", "2", "--memory", std::to_string(kMemory)},
                         .output_file = executor_log.path()});
  const auto hold_most = [&address] {
    const Client client = connect(address);
    std::optional<Executable> held;
    EXPECT_TRUE(eventually([&] {  // Waits until devices are free.
      try {
        const Slice slice = client.allocate({.devices = 2});
        held = slice.compile(with_state(slice.mesh({{"data", 2}}), kMemory / 4 * 3));
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kBug) throw;
      }
      return held.has_value();
    }));
    EXPECT_EQ(held->run()["sum"].item<float>(), 0.0f);
    return held;
  };
  const pid_t first = fork_until_ready(hold_most);
  const Client second = connect(address);
  {
    const Slice slice = second.allocate({.devices = 2});
    EXPECT_THROW(slice.compile(with_state(slice.mesh({{"data", 2}}), kMemory / 4 * 3)), Error)
        << "the first client holds nothing";
  }
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  hold_most();
}

}  // namespace
}  // namespace gangway
