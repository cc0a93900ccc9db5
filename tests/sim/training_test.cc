// Training of a language model by the real controller, executors and client on virtual time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "client/session.h"
#include "gangway.h"
#include "programs/train/language_model.h"
#include "tests/sim/with_client.h"
#include "tests/support/golden/trace_hash.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

// Results of one simulated training, as plain bytes that can pass through a pipe.
struct Outcome {
  Hash128 trace;
  int64_t virtual_ns = 0;
  std::array<float, 3> losses{};
  bool operator==(const Outcome&) const = default;
};

class SimTrainingTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    while (text.size() < 8000) text += cat("line ", text.size(), " of the text. ");
    config_.text = write("text.txt", text).string();
    config_.batch = 8;
    config_.model = {.seq = 16, .dim = 16, .layers = 1, .heads = 2, .hidden = 16};
    config_.model.moe = {.experts = 4, .top_k = 2, .groups = 4};
  }

  // Trains three steps on two hosts of two devices; `seed` seeds the simulation, not the model.
  Outcome train(uint64_t seed) const {
    Outcome outcome;
    auto reactor = Reactor::make_simulated({.seed = seed});
    Tracer tracer(reactor->clock(), "simulation");
    TraceAttachment attached = tracer.attach("reactor");
    with_client(*reactor, {.tracer = &tracer}, [&](SimCluster&, const Client& client) {
      Slice slice = client.allocate({.devices = 4});
      Executable step = slice.compile(programs::train_step(config_, slice.mesh({{"data", 4}})));
      std::vector<gangway::Run> runs;
      for (int i = 1; i <= 3; ++i) {
        runs.push_back(step.run({{"lr", 0.01f}, {"step", static_cast<float>(i)}}));
      }
      for (size_t i = 0; i < 3; ++i) outcome.losses[i] = runs[i]["loss"].item<float>();
    });
    outcome.trace = trace_hash(tracer.drain());
    outcome.virtual_ns = reactor->clock().now_ns();
    return outcome;
  }

  programs::LanguageModelConfig config_;
};

TEST_F(SimTrainingTest, TwoProcessesWithOneSeedGiveTheSameTraceAndLosses) {
  const Outcome here = train(11);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Outcome there = train(11);
    _exit(::write(ends[1], &there, sizeof there) == sizeof there ? 0 : 1);
  }
  Outcome there;
  close(ends[1]);
  ASSERT_EQ(::read(ends[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(here, there);
}

TEST_F(SimTrainingTest, AnotherSeedDiffersInTimeButNotInWhatIsComputed) {
  const Outcome one = train(11), other = train(12);
  EXPECT_NE(one.trace, other.trace);
  EXPECT_NE(one.virtual_ns, other.virtual_ns);
  EXPECT_EQ(one.losses, other.losses);
}

TEST_F(SimTrainingTest, SimulatedDevicesComputeWhatTheCpusCompute) {
  const Outcome simulated = train(11);
  Client client = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = 4});
  Executable step = slice.compile(programs::train_step(config_, slice.mesh({{"data", 4}})));
  for (int i = 1; i <= 3; ++i) {
    const gangway::Run run = step.run({{"lr", 0.01f}, {"step", static_cast<float>(i)}});
    EXPECT_EQ(run["loss"].item<float>(), simulated.losses[static_cast<size_t>(i - 1)]);
  }
}

}  // namespace
}  // namespace gangway
