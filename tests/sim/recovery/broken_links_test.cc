// Links between hosts that break while both hosts reach the controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "sim/study.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"

namespace gangway::broken_links_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A step that reduces over all devices.
Program summed(int64_t devices) {
  ProgramBuilder b("summed", Mesh{{{"data", devices}}});
  Value x = b.input("x", f32({devices, 8}), {{"data", shard(0)}});
  b.output("sum", sum(timed(x, 10'000), {0}));
  return b.build();
}

StudyReport after(const Fault& fault) {
  return study({.cluster = {.hosts = 2, .devices_per_host = 1},
                .programs = {summed(2)},
                .runs = 50,
                .faults = {fault},
                .time_limit_ns = 60'000 * kMillisecond});
}

TEST(BrokenLinks, TheRunsBetweenTwoHostsFailAndNameBothWhicheverWayIsBroken) {
  for (const LinkWays ways : {LinkWays::kThere, LinkWays::kBoth}) {
    const StudyReport report = after(
        {.kind = FaultKind::kBreakLink, .at_ns = kMillisecond, .host = 0, .peer = 1, .ways = ways});
    ASSERT_EQ(report.programs.size(), 1u);
    const ProgramReport& program = report.programs[0];
    EXPECT_THAT(program.error,
                AllOf(HasSubstr("\"host-0\""), HasSubstr("\"host-1\""), HasSubstr("is broken")));
    EXPECT_EQ(program.submitted, program.done + program.failed) << "each run ends";
    ASSERT_EQ(report.faults.size(), 1u);
    EXPECT_LE(report.faults[0].named_after_ns, 2'000 * kMillisecond);
    EXPECT_EQ(report.left.total(), 0u);
    EXPECT_EQ(report.left_bytes, 0);
    EXPECT_EQ(report.left_fibers, 0u);
  }
}

HostTensor ones(int64_t devices) {
  return HostTensor::of<float>({devices, 8},
                               std::vector<float>(static_cast<size_t>(devices) * 8, 1));
}

TEST(BrokenLinks, AHostThatItsPeersDoNotReachIsDroppedAndTheOthersGoOn) {
  const auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {.hosts = 4, .devices_per_host = 1},
              [&](SimCluster& cluster, const Client& client) {
                const Slice all = client.allocate({.devices = 4});
                const Executable step = all.compile(summed(4));
                step.run({{"x", ones(4)}}).wait();
                for (int other = 0; other < 3; ++other) {
                  cluster.break_link(other, 3);
                  cluster.break_link(3, other);
                }
                EXPECT_THAT(error_text_of([&] { step.run({{"x", ones(4)}}).wait(); }),
                            HasSubstr("host \"host-3\" is gone"));
                const Slice rest = client.allocate({.devices = 2});
                const Executable smaller = rest.compile(summed(2));
                const Array sums = smaller.run({{"x", ones(2)}})["sum"];
                EXPECT_THAT(sums.to_host().as<float>(), testing::Each(2.0f));
              });
}

}  // namespace
}  // namespace gangway::broken_links_test
