#include "controller/plans/does_not_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ready_executor.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = int64_t{1} << 20;

// A program over two devices of a host, which needs 40 MiB of states, cut over "data", 16 MiB of
// temporaries and 8 MiB for two runs of each of them.
class DoesNotFit : public testing::Test {
 protected:
  HostId add_host(const std::string& name, uint32_t devices, int64_t memory_bytes) {
    return hosts_.add({.name = name, .devices = devices, .memory_bytes = memory_bytes}, peer_, 0)
        .id;
  }

  PlanRecord record(HostId host) {
    auto plan = std::make_shared<Plan>();
    plan->name = "step";
    plan->hosts = {"a"};
    plan->slices = {{.mesh = {{{"data", 2}}}, .ranges = {{0, 0, 2}}}};
    plan->values = {{.name = "w",
                     .storage = PlanStorage::kState,
                     .type = f32({20 * kMiB}),
                     .local_type = f32({10 * kMiB}),
                     .sharding = {cuts_states_ ? shard(0) : replicate()}}};
    plan->states = {{.value = 0}};
    PlanRecord record{.plan = plan, .hosts = {host}};
    record.layouts = {std::make_shared<const DeviceLayout>(
        DeviceLayout{.devices = {{host, 0}, {host, 1}}, .ranges = {{host, 0, 2}}})};
    const DeviceNeed need{.arena = 16 * kMiB, .state = 40 * kMiB, .slots = 8 * kMiB};
    record.needs = {{need, need}};
    record.needs[0][1].device = 1;
    return record;
  }

  void hold(const std::string& who, DeviceRange at, int64_t bytes) {
    ASSERT_FALSE(hosts_.reserve(who, {{at, bytes}}).has_value());
  }

  Error refusal(const PlanRecord& record, const std::map<DeviceRef, OwnArenas>& arenas = {}) {
    const HostId host = record.hosts[0];
    const auto short_of = hosts_.reserve("client 9 of eve", {{{host, 0, 2}, 64 * kMiB}});
    EXPECT_TRUE(short_of.has_value());
    return does_not_fit(record, hosts_, *short_of, arenas);
  }

  ReadyExecutor peer_{2};
  HostTable hosts_;
  bool cuts_states_ = true;
};

TEST_F(DoesNotFit, SaysHowMuchIsShortWhereAndWhoHoldsIt) {
  const HostId a = add_host("a", 2, 100 * kMiB);
  hold("client 1 of ada", {a, 1, 1}, 30 * kMiB);
  hold("client 2 of bob", {a, 0, 2}, 12 * kMiB);
  const Error error = refusal(record(a));
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(error.message(),
            "compile: program \"step\" does not fit: needs 64.0 MiB (states 40.0 MiB, temporaries "
            "16.0 MiB, inputs and outputs of 2 runs 8.0 MiB) on a/device 1, where 58.0 MiB of "
            "100.0 MiB are free: 6.0 MiB short; client 1 of ada holds 30.0 MiB, client 2 of bob "
            "holds 12.0 MiB");
  EXPECT_EQ(error.hint(),
            "let other programs go; or a mesh with data=4 instead of 2: states cut over it, "
            "40.0 MiB here, fall as 1/n");
}

TEST_F(DoesNotFit, ProposesAsManyRunsInFlightAsThereIsRoomFor) {
  const HostId a = add_host("a", 2, 100 * kMiB);
  hold("client 1 of ada", {a, 0, 1}, 40 * kMiB);  // 60 MiB are left.
  EXPECT_THAT(refusal(record(a)).hint(),
              HasSubstr("CompileOptions::runs_in_flight_max = 1 needs about 60.0 MiB"));
  hold("client 1 of ada", {a, 1, 1}, 41 * kMiB);
  EXPECT_THAT(refusal(record(a)).hint(), Not(HasSubstr("runs_in_flight_max")))
      << "it would not fit on the other device";
}

// With twice the devices 20 of the 40 MiB of states are left, and 24 MiB besides: 20 + 24 > 41.
TEST_F(DoesNotFit, ProposesTheSmallestMeshThatIsLargeEnough) {
  const HostId a = add_host("a", 2, 41 * kMiB);
  EXPECT_THAT(refusal(record(a)).hint(), HasSubstr("a mesh with data=6 instead of 2"));
}

TEST_F(DoesNotFit, ProposesNoMeshWhereStatesAreNotCutOrAreNotTheReason) {
  const HostId a = add_host("a", 2, 23 * kMiB), b = add_host("b", 2, 41 * kMiB);
  EXPECT_THAT(refusal(record(a)).hint(), Not(HasSubstr("a mesh with data")))
      << "temporaries and runs alone take 24 MiB";
  cuts_states_ = false;
  const std::string hint = refusal(record(b)).hint();
  EXPECT_THAT(hint, Not(HasSubstr("a mesh with data")));
  EXPECT_THAT(hint, HasSubstr("cut states over an axis of a larger mesh"));
}

TEST_F(DoesNotFit, DistinguishesProgramsThatCanNeverFitFromThoseThatOthersLeaveNoRoom) {
  const HostId a = add_host("a", 2, 48 * kMiB), b = add_host("b", 2, 50 * kMiB);
  hold("client 1 of ada", {a, 0, 1}, 48 * kMiB);
  hold("client 1 of ada", {b, 0, 2}, 1 * kMiB);
  const Error error = refusal(record(a));
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << "waiting does not help";
  EXPECT_THAT(error.message(), HasSubstr("does not fit, nor ever will on this cluster: needs"));
  EXPECT_THAT(error.message(),
              HasSubstr("on a/device 0, which has 48.0 MiB: 16.0 MiB short even when nobody holds "
                        "any; the largest device is b/device 0 with 50.0 MiB"));
  EXPECT_THAT(error.hint(), Not(HasSubstr("let other programs go")));
  EXPECT_THAT(error.hint(), HasSubstr("data=4")) << "on empty devices";
}

TEST_F(DoesNotFit, ProposesOtherDevicesThatHaveRoom) {
  const HostId a = add_host("a", 2, 48 * kMiB), b = add_host("b", 2, 80 * kMiB);
  {
    const Error error = refusal(record(a));
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("nor ever will on its devices"));
    EXPECT_THAT(error.hint(), HasSubstr("allocate elsewhere (SliceOptions::memory_bytes): 2 other "
                                        "devices have 64.0 MiB free"));
  }
  hold("client 1 of ada", {b, 1, 1}, 40 * kMiB);
  EXPECT_THAT(refusal(record(a)).hint(), HasSubstr("2 other devices have so much when empty"));
}

TEST_F(DoesNotFit, ProposesToOverlayTemporariesWhereThatWouldDo) {
  const HostId a = add_host("a", 2, 100 * kMiB);
  hold("client 1 of ada", {a, 0, 2}, 50 * kMiB);  // 50 MiB are left: 14 short.
  const auto proposes = [&](int64_t arena_of_another) {
    const OwnArenas arenas{arena_of_another, arena_of_another};
    const Error error = refusal(record(a), {{{a, 0}, arenas}, {{a, 1}, arenas}});
    return error.hint().find("--overlay-memory") != std::string::npos;
  };
  EXPECT_TRUE(proposes(14 * kMiB)) << "they would lie in the 16 MiB of this program";
  EXPECT_FALSE(proposes(13 * kMiB));
  EXPECT_TRUE(proposes(30 * kMiB)) << "this one's 16 MiB would lie in them";
  EXPECT_FALSE(proposes(0));
}

TEST_F(DoesNotFit, CountsWhatOverlaidProgramsHaveAlreadyForTemporaries) {
  const HostId a = add_host("a", 2, 100 * kMiB);
  hold("client 1 of ada", {a, 0, 2}, 44 * kMiB);
  ASSERT_FALSE(hosts_.reserve_overlaid("client 2 of bob", {{{a, 0, 2}, 10 * kMiB}}));
  PlanRecord overlaid = record(a);
  for (DeviceNeed& need : overlaid.needs[0]) need.overlaid = std::exchange(need.arena, 0);
  const Error error = refusal(overlaid);
  EXPECT_THAT(
      error.message(),
      HasSubstr("temporaries 16.0 MiB, inputs and outputs of 2 runs 8.0 MiB) on a/device 0, "
                "where 46.0 MiB of 100.0 MiB are free, and 10.0 MiB for temporaries in "
                "turns: 8.0 MiB short; client 1 of ada holds 44.0 MiB, the region that "
                "overlaid programs share holds 10.0 MiB"));
}

TEST_F(DoesNotFit, ProposesNothingOfHostsThatAreLost) {
  const HostId a = add_host("a", 2, 48 * kMiB), b = add_host("b", 2, 80 * kMiB);
  hosts_.keep(b);
  hosts_.at(b).lost.emplace(ErrorKind::kUnavailable, "its power is gone");
  const Error error = refusal(record(a));
  EXPECT_THAT(error.message(), HasSubstr("on this cluster"));
  EXPECT_THAT(error.hint(), Not(HasSubstr("elsewhere")));
  hosts_.drop(b);
}

}  // namespace
}  // namespace gangway
