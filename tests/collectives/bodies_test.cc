// Collectives inside the bodies of scans and calls, on CPU and simulated devices: each device gets
// the reference interpreter's results, wherever sections end, whichever other program runs, and
// whichever member is poisoned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/body_functions.h"
#include "tests/collectives/local_call.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

std::shared_ptr<const Function> for_cluster(const Cluster& cluster) {
  return cluster.mesh == kTwo ? layers_on(2) : nested_on_four();
}

std::vector<Cluster> clusters(uint32_t hosts_min) {
  std::vector<Cluster> found;
  for (const Cluster& cluster : kClusters) {
    const bool has_function = cluster.mesh == kTwo || cluster.mesh == kSquare;
    if (has_function && cluster.hosts >= hosts_min) found.push_back(cluster);
  }
  return found;
}

class BodiesTest : public ::testing::TestWithParam<std::tuple<Cluster, DeviceKind>> {
 protected:
  const Cluster& cluster() const { return std::get<0>(GetParam()); }
  DeviceKind kind() const { return std::get<1>(GetParam()); }
};

TEST_P(BodiesTest, EachDeviceGetsWhatTheReferenceGives) {
  const auto f = for_cluster(cluster());
  LocalCall call(cluster(), f, kind());
  call.install();
  for (uint64_t run = 1; run <= 3; ++run) {
    const auto arguments = random_arguments(*f, tests::test_seed() + run);
    expect_reference(*f, arguments, call.run(arguments, run));
  }
}

TEST_P(BodiesTest, SectionsMayEndAnywhereInsideALoop) {
  const auto f = for_cluster(cluster());
  for (const int64_t section_ns : {1, 25'000}) {
    LocalCall call(std::make_shared<LocalHosts>(cluster(), kind()), PlanId(1), f, section_ns);
    EXPECT_GT(call.sections(), 4u);
    call.install();
    for (uint64_t run = 1; run <= 2; ++run) {
      const auto arguments = random_arguments(*f, tests::test_seed() + run);
      expect_reference(*f, arguments, call.run(arguments, run));
    }
  }
}

// Each section is granted alone, and the sections of the two programs alternate.
TEST_P(BodiesTest, TwoProgramsTakeTurnsInsideTheirLoops) {
  const auto f = for_cluster(cluster());
  const auto on = std::make_shared<LocalHosts>(cluster(), kind());
  LocalCall one(on, PlanId(1), f, 1), other(on, PlanId(2), f, 25'000);
  one.install();
  other.install();
  const auto arguments = random_arguments(*f, tests::test_seed());
  const RunFrame runs[2] = {one.request(arguments, 1), other.request(arguments, 2)};
  const size_t positions[2] = {one.sections(), other.sections()};
  for (auto& host : on->hosts.hosts) {
    for (const RunFrame& run : runs) host->prepare({0, run});
  }
  uint64_t ticket = 10'000;  // Above those of the arguments.
  for (uint32_t p = 0; p < std::max(positions[0], positions[1]); ++p) {
    for (size_t r : {0, 1}) {
      if (p >= positions[r]) continue;
      for (auto& host : on->hosts.hosts) {
        host->grant(
            {{{.run = runs[r].run, .slice = 0, .first = p, .count = 1, .ticket = Ticket(ticket)}}});
      }
      ++ticket;
    }
  }
  expect_reference(*f, arguments, one.results(runs[0]));
  expect_reference(*f, arguments, other.results(runs[1]));
}

// A run is cancelled on one of several hosts.
using BodiesOnHostsTest = BodiesTest;

TEST_P(BodiesOnHostsTest, APoisonedMemberGoesThroughItsLoopsWithTheOthers) {
  const auto f = for_cluster(cluster());
  LocalCall call(cluster(), f, kind());
  call.install();
  const auto arguments = random_arguments(*f, tests::test_seed());
  const RunFrame run = call.request(arguments, 1);
  TestHosts& hosts = call.hosts();
  hosts.start_on(0, run);
  hosts.hosts[0]->cancel(RunId(1), ErrorKind::kCancelled, "run: its time limit passed");
  hosts.start_on(1, run);
  const Done done = hosts.wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->kind(), ErrorKind::kCancelled);
  ASSERT_TRUE(hosts.logs[1]->done[RunId(1)].error);
  EXPECT_EQ(hosts.logs[1]->done[RunId(1)].error->kind(), ErrorKind::kUnavailable);
  expect_reference(*f, arguments, call.run(arguments, 2));
}

// The second device's exp(x * w[1]) overflows.
TEST(BodiesDiagnosisTest, AnOpWhoseResultIsNotFiniteIsNamedWithItsIteration) {
  const auto f = overflowing_on_two();
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kSim}) {
    LocalHosts on(kClusters[0], kind);
    TestPlan plan("local", 1, 2);
    LocalFunction local{.function = f, .commit_begin = 2, .finite_result = 0};
    local.sections = cut_sections(*local.function, local.commit_begin, rates_of("cpu"), 1);
    plan.plan().functions.push_back(local);
    const uint32_t x = plan.input("x", f32({4}), {shard(0)});
    const uint32_t w = plan.input("w", f32({6, 2}), {shard(0)});
    plan.call("step", 0, {x, w}, {plan.output("loss", f32())});
    plan.gate();
    on.hosts.install(PlanId(1), plan.share());
    on.hosts.put<float>(ArrayId(1), PlanId(1), 0, {1, 1, 1, 1});
    on.hosts.put<float>(ArrayId(2), PlanId(1), 1, {1, 1, 1, 1, 1, 1, 1, 1, 1, 900, 1, 1});
    on.hosts.start({.plan = PlanId(1),
                    .run = RunId(1),
                    .arguments = {{0, ArrayId(1), {}}, {1, ArrayId(2), {}}},
                    .outputs = {ArrayId(3)}});
    const Done done = on.hosts.wait(RunId(1));
    ASSERT_TRUE(done.error);
    EXPECT_TRUE(done.is_origin);
    EXPECT_THAT(done.error->what(), ::testing::HasSubstr("exp of f32[2]: first result"));
    EXPECT_THAT(done.error->what(), ::testing::HasSubstr("bodies.gw:4 in layers.1"));
  }
}

TEST(RowsThatMustFitTest, RowsThatMustFitAndDoNotFailTheRun) {
  const auto f = rows_that_must_fit();
  for (const Cluster& cluster : {kClusters[0], kClusters[1]}) {
    LocalCall call(cluster, f, DeviceKind::kCpu);
    call.install();
    expect_overflow_fails_its_run(call, *f);
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Cluster, DeviceKind>>& i) {
  return cat(std::get<0>(i.param).name,
             std::get<1>(i.param) == DeviceKind::kCpu ? "_Cpu" : "_Simulated");
}

INSTANTIATE_TEST_SUITE_P(AllDevices, BodiesTest,
                         ::testing::Combine(::testing::ValuesIn(clusters(1)),
                                            ::testing::Values(DeviceKind::kCpu, DeviceKind::kSim)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(AllDevices, BodiesOnHostsTest,
                         ::testing::Combine(::testing::ValuesIn(clusters(2)),
                                            ::testing::Values(DeviceKind::kCpu, DeviceKind::kSim)),
                         name_of);

}  // namespace
}  // namespace gangway
