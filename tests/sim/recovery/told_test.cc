// Results that a client got stay true when its program is brought back, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/recovery/trained_program.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"

namespace gangway {
namespace {

using sim::input_of;
using sim::number;
using sim::trained_program;

// The time limit of a step is shorter than the time of all steps that are run again.
TEST(RecoveryToldTest, ReportedStepsWithATimeLimitAreRecovered) {
  constexpr int kSteps = 60;
  constexpr int64_t kLimitMs = 5;
  const TempDir root;
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(
      *reactor,
      {.hosts = 3, .checkpoint_folder = root.path().string(), .time = ProcessTime::kModelled},
      [&](SimCluster& cluster, const Client& client) {
        const Slice slice = client.allocate({.devices = 4});
        const Executable step = slice.compile(trained_program());
        slice.keep_checkpoints({.every = 1000});
        const auto run = [&](int i) {
          return step.run({{"x", number(input_of(i))}}, {.time_limit_ms = kLimitMs});
        };
        for (int i = 0; i < kSteps; ++i) run(i).wait();
        const int64_t began_ns = reactor->clock().now_ns();
        cluster.kill(1);
        EXPECT_EQ(sim::as_double(slice.read_state("steps")), kSteps);
        EXPECT_GT(reactor->clock().now_ns() - began_ns, kLimitMs * kMillisecond);
        run(kSteps).wait();
        EXPECT_EQ(sim::as_double(slice.read_state("steps")), kSteps + 1);
      });
}

}  // namespace
}  // namespace gangway
