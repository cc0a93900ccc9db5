// A dropless program that its client's library compiles again with more room, and which then loses
// a host, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kGroups = 4, kTokens = 6, kDim = 3, kExperts = 4, kHidden = 5;
const AxisPlacements kByExpert = {{"expert", shard(0)}};

// Rows of x go to the experts that `choice` names, on two devices; each has room for its own rows
// only. State "count" counts runs.
Program routed() {
  ProgramBuilder b("routed", Mesh{{{"expert", 2}}});
  const Value x = b.input("x", f32({kGroups, kTokens, kDim}), kByExpert);
  const Value choice = b.input("choice", i32({kGroups, kTokens, 1}), kByExpert);
  const Value w = b.state("w", zeros(f32({kExperts, kDim, kHidden})), kByExpert);
  const Value count = b.state("count", zeros(f32()));
  Route route = moe_route(choice, kExperts);
  route.bound = 1;
  b.update(count, count + 1.0);
  b.output("y", sum(grouped_dot(moe_dispatch(x, route), w + 1.0, route)));
  return b.build();
}

// Each device keeps its rows, or all go to the experts of the first one.
std::vector<Argument> rows(bool is_crowded) {
  std::vector<int32_t> choice;
  for (int64_t i = 0; i < kGroups * kTokens; ++i) {
    const int64_t first = is_crowded ? 0 : i / kTokens / 2 * 2;
    choice.push_back(static_cast<int32_t>(first + i % 2));
  }
  const std::vector<float> x(static_cast<size_t>(kGroups * kTokens * kDim), 1.0f);
  return {{"x", HostTensor::of<float>({kGroups, kTokens, kDim}, x)},
          {"choice", HostTensor::of<int32_t>({kGroups, kTokens, 1}, choice)}};
}

// When the library compiles again it releases the old executable, which has run since the newest
// checkpoint and can't be run again. Once hosts make more room by themselves nothing is compiled
// again, and this test must expect that the program goes on and that "count" is 3.
TEST(RecoveryDroplessTest, AProgramThatWasGivenMoreRoomEndsWhenAHostIsLostBeforeACheckpoint) {
  const TempDir root;
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(
        *reactor, {.hosts = 3, .devices_per_host = 1, .checkpoint_folder = root.path().string()});
    std::vector<std::string> told;
    const Client client = cluster.connect(
        "client", {.on_warning = [&](const std::string& line) { told.push_back(line); }});
    {
      const Slice slice = client.allocate({.devices = 2});
      const Executable step = slice.compile(routed());
      slice.keep_checkpoints({.every = 1000});
      step.run(rows(false)).wait();
      step.run(rows(true)).wait();
      cluster.kill(0);
      const Error error = error_of([&] { step.run(rows(false)).wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    }
    EXPECT_THAT(told, Contains(HasSubstr("can't be brought back: it has let go of an executable "
                                         "that has run since the newest checkpoint")));
    client.close();
  });
}

}  // namespace
}  // namespace gangway
