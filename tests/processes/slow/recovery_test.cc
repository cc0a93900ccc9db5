// A program that keeps checkpoints on real processes, whose executors are killed one after another:
// it goes on by itself, and no bit of its losses or states changes.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <filesystem>

#include "gangway.h"
#include "runtime/base/rng.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr int kKills = 10, kStepsBetween = 25, kExecutors = 3;
constexpr int kSteps = (kKills + 1) * kStepsBetween;
constexpr size_t kAhead = 4;

Program training() {
  const Mesh mesh{{{"data", 2}}};
  ProgramBuilder b("training", mesh);
  const Value w = b.state("w", zeros(f32({64, 32})), {{"data", shard(0)}});
  const Value v = b.state("v", zeros(f32({32})));
  const Value next = w * 0.99 + sin(w + b.input("x", f32({})));
  b.update(w, next);
  b.update(v, v * 0.9 + mean(next, {0}));
  b.output("loss", mean(next * next) + mean(v));
  return b.build();
}

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
    for (int i = 0; i < kExecutors; ++i) executors_.push_back(executor(i));
  }

  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", token_}},
                         .output_file = output.path()});
  }
  // Each executor has one device, so that the program lies on two executors.
  ChildProcess executor(int i) const {
    return start({"executor", "--connect", address_, "--name", cat("e", i), "--devices", "1",
                  "--memory", std::to_string(1 << 28)},
                 executor_said_);
  }
  Client client(const std::string& name) const {
    return connect(address_,
                   {.name = name, .token_file = token_, .on_warning = [](const std::string&) {}});
  }
  void wait_for_executors(const Client& client) const {
    EXPECT_TRUE(eventually([&] { return client.status().hosts.size() == kExecutors; }))
        << output_of(executor_said_);
  }

  const TempDir temp_;
  const std::string token_ = (temp_.path() / "state" / "token").string();
  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_ = start({"controller", "--listen", "127.0.0.1:0", "--checkpoint-dir",
                                    (temp_.path() / "kept").string()},
                                   said_);
  std::string address_;
  std::vector<ChildProcess> executors_;
};

TEST_F(RecoveryTest, TenExecutorsThatAreKilledChangeNoBit) {
  Rng rng(tests::test_seed(), 0x41EC);
  std::vector<float> losses[2];
  std::vector<std::byte> states[2];
  for (const bool kills : {false, true}) {
    const Client trainer = client("trainer");
    wait_for_executors(trainer);
    const Slice slice = trainer.allocate({.devices = 2});
    const Executable step = slice.compile(training());
    if (kills) slice.keep_checkpoints({.every = 20});
    std::deque<gangway::Run> open;
    for (int i = 0; i < kSteps || !open.empty(); ++i) {
      if (i < kSteps) open.push_back(step.run({{"x", static_cast<float>(i % 7)}}));
      if (kills && i > 0 && i < kSteps && i % kStepsBetween == 0) {
        const auto victim = static_cast<size_t>(rng.below(kExecutors));
        executors_[victim].signal(SIGKILL);
        executors_[victim].wait();
        executors_[victim] = executor(static_cast<int>(victim));
      }
      if (open.size() < kAhead && i < kSteps) continue;
      losses[kills].push_back(open.front()["loss"].item<float>());
      open.pop_front();
    }
    states[kills] = slice.read_state("w").bytes;
    trainer.close();
  }
  EXPECT_EQ(losses[1].size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(states[0], states[1]);
  EXPECT_NE(output_of(said_).find("the program goes on on"), std::string::npos);
}

}  // namespace
}  // namespace gangway
