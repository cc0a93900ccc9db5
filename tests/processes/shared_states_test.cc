// A program of one owner follows the states of another owner's program, between processes as users
// start them.
#include "client/shared_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::shared_states_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 8, kColumns = 512;
constexpr int kRuns = 60, kEvery = 20;

const Mesh kMesh{{{"data", 2}}};

Program training() {
  ProgramBuilder b("training", kMesh);
  const Value w = b.state("w", zeros(f32({kRows, kColumns})), {{"data", shard(0)}});
  const Value v = b.state("v", zeros(f32({kColumns})));
  const Value next = w * 0.999 + b.input("x", f32({kRows, kColumns}), {{"data", shard(0)}});
  b.update(w, next);
  b.update(v, v * 0.9 + mean(next, {0}));
  b.output("loss", mean(next * next));
  return b.build();
}

// A program that has one of the trainer's states.
Program evaluating() {
  ProgramBuilder b("evaluating", kMesh);
  const Value w = b.state("w", zeros(f32({kRows, kColumns})), {{"data", shard(0)}});
  b.output("sum", sum(w));
  return b.build();
}

HostTensor input() {
  std::vector<float> x;
  for (int64_t i = 0; i < kRows * kColumns; ++i) x.push_back(0.001f * static_cast<float>(i % 997));
  return HostTensor::of<float>({kRows, kColumns}, x);
}

class SharedStatesTest : public testing::Test {
 protected:
  SharedStatesTest() {
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
    for (const char* const name : {"host-0", "host-1"})
      executors_.push_back(start(
          {"executor", "--connect", address_, "--name", name, "--memory", std::to_string(64 << 20)},
          executor_said_));
    ChildProcess token = start({"token", "add", "bob", "--out", bobs_token_}, executor_said_);
    EXPECT_EQ(token.wait().code, 0) << output_of(executor_said_);
  }

  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", own_token_}},
                         .output_file = output.path()});
  }

  // The losses of a training, with or without a follower.
  std::vector<float> train(const Client& client, const std::function<void()>& on_shared,
                           const std::function<void()>& on_run) const {
    const Slice slice = client.allocate({.devices = 2, .wait_ms = 10'000});
    const Executable step = slice.compile(training());
    slice.allow_read("bob");
    on_shared();
    const Array x = slice.from_host(input());
    std::deque<gangway::Run> open;
    std::vector<float> losses;
    for (int i = 0; i < kRuns; ++i) {
      open.push_back(step.run({{"x", x}}));
      on_run();
      if (open.size() < 4) continue;
      losses.push_back(open.front()["loss"].item<float>());
      open.pop_front();
    }
    for (const gangway::Run& run : open) losses.push_back(run["loss"].item<float>());
    return losses;
  }

  const TempDir folder_;
  const std::string own_token_ = (folder_.path() / "state" / "token").string();
  const std::string bobs_token_ = (folder_.path() / "bob").string();
  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_ = start({"controller", "--listen", "127.0.0.1:0"}, said_);
  std::string address_;
  std::vector<ChildProcess> executors_;
};

TEST_F(SharedStatesTest, AnEvaluatorOfAnotherOwnerFollowsATrainerThatDoesNotNotice) {
  std::vector<float> alone;
  {
    const Client client = connect(address_, {.name = "alone", .token_file = own_token_});
    alone = train(client, [] {}, [] {});
  }
  const Client trainer = connect(address_, {.name = "pretrain", .token_file = own_token_});
  const Client bob = connect(address_, {.name = "evaluate", .token_file = bobs_token_});
  const std::string program = own_user_name() + "/pretrain";
  EXPECT_THAT(error_text_of([&] { bob.open_states(program); }),
              HasSubstr("there is no program \"" + program + "\""));

  const Slice slice = bob.allocate({.devices = 2, .wait_ms = 10'000});
  const Executable evaluate = slice.compile(evaluating());
  std::vector<Snapshot> snapshots;
  std::vector<float> sums;
  // Evaluates a snapshot that has come, while the trainer goes on.
  const auto evaluate_next = [&] {
    slice.load(snapshots[sums.size()]);
    sums.push_back(evaluate.run()["sum"].item<float>());
  };
  const std::vector<float> losses = train(
      trainer,
      [&] {
        const SharedStates states = bob.open_states(program);
        for (uint64_t version = kEvery; version <= kRuns; version += kEvery)
          snapshots.push_back(states.at(version));
        EXPECT_EQ(states.latest().version(), 0u) << "it was asked for behind the others";
      },
      [&] {
        if (sums.size() < snapshots.size() && snapshots[sums.size()].done()) evaluate_next();
      });
  while (sums.size() < snapshots.size()) evaluate_next();
  EXPECT_EQ(losses, alone);

  // Compares with a program that stops at each of these versions.
  const Slice again = trainer.allocate({.devices = 2});
  const Executable step = again.compile(training());
  const Array x = again.from_host(input());
  ASSERT_EQ(snapshots.size(), size_t{kRuns / kEvery});
  for (size_t i = 0; i < snapshots.size(); ++i) {
    for (int run = 0; run < kEvery; ++run) step.run({{"x", x}});
    EXPECT_EQ(snapshots[i].version(), (i + 1) * kEvery);
    for (const char* const name : {"w", "v"})
      EXPECT_EQ(snapshots[i].read(name).bytes, again.read_state(name).bytes) << name << " at " << i;
    const Slice other = trainer.allocate({.devices = 2});
    const Executable alike = other.compile(evaluating());
    other.write_state("w", again.read_state("w"));
    EXPECT_EQ(alike.run()["sum"].item<float>(), sums[i]);
  }
}

}  // namespace
}  // namespace gangway::shared_states_test
