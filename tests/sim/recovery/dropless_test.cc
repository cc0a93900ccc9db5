// Dropless programs to which the controller gives more room: they are repeated, go on without their
// client and lose a host, on virtual time. Their losses are those of a program that had the room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/recovery/routed_rows.h"

namespace gangway {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGroups = 4, kTokens = 6, kDim = 3, kExperts = 4, kHidden = 5;
const AxisPlacements kByExpert = {{"expert", shard(0)}};

// Rows of x go to the experts that `own` names, and from step `crowds_at` on to those of `crowded`.
// Each of two devices has room for `bound` times its own rows. The loss depends, bit for bit, on
// every step before.
Program routed(double bound, double crowds_at) {
  ProgramBuilder b("routed", Mesh{{{"expert", 2}}});
  const Value x = b.input("x", f32({kGroups, kTokens, kDim}), kByExpert);
  const Dims each_row = {kGroups, kTokens, 1};
  const Value own = b.input("own", i32(each_row), kByExpert);
  const Value crowded = b.input("crowded", i32(each_row), kByExpert);
  const Value step = b.input("step", f32());
  const Value w = b.state("w", zeros(f32({kExperts, kDim, kHidden})), kByExpert);
  const Value loss = b.state("sum", zeros(f32()));
  const Value is_crowded = broadcast_to(ge(step, crowds_at), each_row);
  const Value y = sum(through_experts(x, where(is_crowded, crowded, own), w + 1.0, bound));
  const Value next = loss * 0.75 + y * (step + 0.3);
  b.update(loss, next);
  b.output("loss", next);
  return b.build();
}

HostTensor some_rows() {
  std::vector<float> x(static_cast<size_t>(kGroups * kTokens * kDim));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i % 7);
  return HostTensor::of<float>({kGroups, kTokens, kDim}, x);
}

// Each device keeps its rows, or all go to the experts of the first one.
HostTensor experts(bool is_crowded) {
  std::vector<int32_t> choice;
  for (int64_t i = 0; i < kGroups * kTokens; ++i) {
    const int64_t first = is_crowded ? 0 : i / kTokens / 2 * 2;
    choice.push_back(static_cast<int32_t>(first + i % 2));
  }
  return HostTensor::of<int32_t>({kGroups, kTokens, 1}, choice);
}

std::vector<Argument> given(int step) {
  return {{"x", some_rows()},
          {"own", experts(false)},
          {"crowded", experts(true)},
          {"step", static_cast<float>(step)}};
}

std::vector<RepeatedInput> repeated(int first_step) {
  return {{"x", some_rows()},
          {"own", experts(false)},
          {"crowded", experts(true)},
          {"step", Schedule::linear(first_step, 1)}};
}

// The losses of a program that has room for all rows.
std::vector<float> losses_with_room(SimCluster& cluster, int steps, double crowds_at) {
  const Client client = cluster.connect("roomy");
  std::vector<float> losses;
  {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(2, crowds_at));
    for (int i = 0; i < steps; ++i) losses.push_back(step.run(given(i))["loss"].item<float>());
  }
  client.close();
  return losses;
}

class DroplessTest : public testing::Test {
 protected:
  ConnectOptions told() {
    return {.name = "trainer",
            .on_warning = [this](const std::string& line) { warnings_.push_back(line); }};
  }

  const TempDir root_;
  std::vector<std::string> warnings_;
};

TEST_F(DroplessTest, ARepetitionGetsMoreRoomAndGoesOnToItsLastStep) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 1});
    const std::vector<float> alone = losses_with_room(cluster, 41, 20);
    const Client client = cluster.connect("client", told());
    {
      const Slice slice = client.allocate({.devices = 2});
      const Executable step = slice.compile(routed(0.5, 20));
      const RepeatStatus status = step.repeat(40, repeated(0)).wait();
      EXPECT_EQ(status.done, 40);
      EXPECT_EQ(static_cast<float>(status.outputs.at(0).value), alone[39]);
      EXPECT_EQ(slice.read_state("sum").as<float>()[0], alone[39]);
      EXPECT_EQ(step.run(given(40))["loss"].item<float>(), alone[40]);
    }
    EXPECT_THAT(warnings_, Contains(HasSubstr("bound 0.5 became 1 at dropless_test.cc")));
    EXPECT_THAT(warnings_, Contains(HasSubstr("bound 1 became 2 at dropless_test.cc")));
    client.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST_F(DroplessTest, ADetachedProgramGetsMoreRoomWithoutItsClient) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 1});
    Controller& controller = cluster.controller.controller();
    const std::vector<float> alone = losses_with_room(cluster, 42, 30);
    const Client first = cluster.connect("first", told());
    {
      const Slice slice = first.allocate({.devices = 2});
      const Executable step = slice.compile(routed(1, 30));
      step.run(given(0)).wait();
      step.repeat(40, repeated(1));
      first.detach();
    }
    EXPECT_THAT(warnings_, Not(Contains(HasSubstr("became"))));
    pass(*reactor, 10 * kSecond);
    ASSERT_EQ(controller.program_counts().size(), 1u);
    EXPECT_TRUE(controller.program_counts()[0].detached);
    const Client second = cluster.attach("second", told());
    const Executable step = second.executable("routed");
    const RepeatStatus status = step.repetition()->wait();
    EXPECT_EQ(status.done, 40);
    EXPECT_EQ(static_cast<float>(status.outputs.at(0).value), alone[40]);
    EXPECT_EQ(step.run(given(41))["loss"].item<float>(), alone[41]);
    EXPECT_THAT(second.logs("trainer").lines,
                Contains(Field(&LoggedLine::text, HasSubstr("bound 1 became 2"))));
    second.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST_F(DroplessTest, AProgramThatWasGivenMoreRoomIsBroughtBackWhenAHostIsLost) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(
        *reactor, {.hosts = 3, .devices_per_host = 1, .checkpoint_folder = root_.path().string()});
    const std::vector<float> alone = losses_with_room(cluster, 6, 1);
    const Client client = cluster.connect("client", told());
    {
      const Slice slice = client.allocate({.devices = 2});
      const Executable step = slice.compile(routed(1, 1));
      slice.keep_checkpoints({.every = 1000});
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(step.run(given(i))["loss"].item<float>(), alone[static_cast<size_t>(i)]);
      cluster.kill(0);
      for (int i = 3; i < 6; ++i)
        EXPECT_EQ(step.run(given(i))["loss"].item<float>(), alone[static_cast<size_t>(i)]);
    }
    EXPECT_THAT(warnings_, Contains(HasSubstr("bound 1 became 2")));
    EXPECT_THAT(warnings_, Contains(HasSubstr("the program goes on on")));
    client.close();
  });
}

TEST_F(DroplessTest, RunsBehindAFailedRunAreNotRunAgain) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 1});
    const std::vector<float> alone = losses_with_room(cluster, 1, 0);
    const Client client = cluster.connect("client", told());
    {
      const Executable step = client.allocate({.devices = 2}).compile(routed(1, 0));
      const gangway::Run bad = step.run(given(0));
      bad.cancel();
      const gangway::Run behind = step.run(given(0));
      EXPECT_THAT(error_text_of([&] { behind.wait(); }), HasSubstr("nothing was committed"));
      EXPECT_EQ(error_of([&] { bad.wait(); }).kind(), ErrorKind::kCancelled);
      EXPECT_EQ(step.run(given(0))["loss"].item<float>(), alone[0]);
    }
    client.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

// The host is lost at another moment of the repetition each time, also while the plan is compiled
// again and while runs are run again.
TEST_F(DroplessTest, AHostMayBeLostAtAnyMomentOfARerun) {
  int kills_in_a_rerun = 0;
  for (int moment = 0; moment < 12; ++moment) {
    SCOPED_TRACE(moment);
    warnings_.clear();
    const TempDir folder;
    auto reactor = Reactor::make_simulated({.seed = static_cast<uint64_t>(7 + moment)});
    reactor->run([&] {
      SimCluster cluster(
          *reactor,
          {.hosts = 3, .devices_per_host = 1, .checkpoint_folder = folder.path().string()});
      const std::vector<float> alone = losses_with_room(cluster, 20, 8);
      const Client client = cluster.connect("client", told());
      {
        const Slice slice = client.allocate({.devices = 2});
        const Executable step = slice.compile(routed(0.5, 8));
        slice.keep_checkpoints({.every = 5});
        const Repeat repeat = step.repeat(20, repeated(0));
        pass(*reactor, moment * kMillisecond / 2);
        const auto census = cluster.controller.controller().census();
        kills_in_a_rerun += census.at("runs that are held") > 0 ? 1 : 0;
        cluster.kill(0);
        const RepeatStatus status = repeat.wait();
        EXPECT_EQ(status.done, 20);
        EXPECT_EQ(static_cast<float>(status.outputs.at(0).value), alone[19]);
      }
      EXPECT_THAT(warnings_, Contains(HasSubstr("became")));
      EXPECT_THAT(warnings_, Not(Contains(HasSubstr("can't be brought back"))));
      client.close();
      EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    });
  }
  EXPECT_GT(kills_in_a_rerun, 0);
}

}  // namespace
}  // namespace gangway
