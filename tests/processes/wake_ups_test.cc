// Counts the threads that a call wakes, one after another: each wake-up takes longer than all the
// work.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "gangway.h"
#include "tests/processes/process_tree.h"

namespace gangway {
namespace {

// The number of times that threads of this process and its children have gone to sleep.
int64_t sleeps() {
  std::vector<pid_t> processes = children_of(getpid());
  processes.push_back(getpid());
  int64_t sum = 0;
  for (const pid_t pid : processes) {
    std::error_code gone;
    const auto tasks = std::filesystem::path("/proc") / std::to_string(pid) / "task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
      const std::string key = "voluntary_ctxt_switches:";
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with(key)) sum += std::stoll(line.substr(key.size()));
      }
    }
  }
  return sum;
}

Program add_one(const Mesh& mesh) {
  ProgramBuilder b("add_one", mesh);
  Value x = b.input("x", f32());
  b.output("y", x + 1.0);
  return b.build();
}

// The user's thread sends the run itself. Five threads wake: the controller for the run, the
// executor, the controller for the run's end, the client's reactor, and the user's thread unless it
// spins meanwhile.
TEST(WakeUpsTest, ABriefCallThatIsWaitedForWakesFiveThreadsAtMost) {
  constexpr int kRounds = 40, kCalls = 20;
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 1});
  const Executable next = slice.compile(add_one(slice.mesh({{"data", 1}})));
  double fewest = 100;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t before = sleeps();
    for (int call = 0; call < kCalls; ++call) {
      const float y = next.run({{"x", static_cast<float>(call)}})["y"].item<float>();
      ASSERT_EQ(y, static_cast<float>(call + 1));
    }
    fewest = std::min(fewest, static_cast<double>(sleeps() - before) / kCalls);
  }
  EXPECT_LT(fewest, 6);  // Some more for heartbeats, and for frees after the last call.
}

}  // namespace
}  // namespace gangway
