// Programs on simulated clusters, large ones too, as `gangway sim` runs them.
#include "sim/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gangway.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A step that keeps devices busy for `microseconds`, and then all-reduces `floats` numbers over all
// devices.
Program busy_step(const std::string& name, int64_t devices, int64_t microseconds,
                  int64_t floats = 1) {
  ProgramBuilder b(name, Mesh{{{"data", devices}}});
  Value x = timed(b.input("x", f32({devices, 1}), {{"data", shard(0)}}), microseconds);
  b.output("sum", sum(broadcast_to(x, {devices, floats}), {0}));
  return b.build();
}

StudyOptions timed_study(int hosts, int devices_per_host) {
  return {.cluster = {.hosts = hosts, .devices_per_host = devices_per_host, .timed_only = true}};
}

TEST(StudyTest, AStudySaysWhatAProgramHadOfTheDevices) {
  StudyOptions options = timed_study(2, 2);
  options.programs = {busy_step("step", 4, 1000)};
  options.runs = 20;
  const StudyReport report = study(options);
  ASSERT_EQ(report.programs.size(), 1u);
  EXPECT_EQ(report.programs[0].submitted, 20);
  EXPECT_EQ(report.programs[0].done, 20);
  EXPECT_EQ(report.programs[0].share, 1.0);
  EXPECT_THAT(report.programs[0].error, IsEmpty());
  EXPECT_GE(report.makespan_ns, 20 * 1'000'000);
  EXPECT_GT(report.utilisation, 0.9);
  EXPECT_LE(report.utilisation, 1.0);
  EXPECT_EQ(report.left.total(), 0u);
}

TEST(StudyTest, SharesAreThoseOfTheTimeInWhichAllProgramsRan) {
  StudyOptions options = timed_study(2, 2);
  options.programs = {busy_step("step", 4, 1000), busy_step("step", 4, 1000)};
  options.shares = {{.weight = 3}};
  options.runs = 200;
  const StudyReport report = study(options);
  EXPECT_EQ(report.programs[0].busy_ns, report.programs[1].busy_ns);
  EXPECT_NEAR(report.programs[0].share, 0.75, 0.02);
  EXPECT_NEAR(report.programs[1].share, 0.25, 0.02);
}

TEST(StudyTest, FaultsThatCameTooLateAreToldApart) {
  StudyOptions options = timed_study(2, 2);
  options.programs = {busy_step("step", 4, 1000)};
  const Fault slow{.kind = FaultKind::kSlow, .at_ns = 1'000'000, .for_ns = 1'000'000, .factor = 2};
  Fault late = slow;
  late.at_ns = 60'000'000'000;
  options.faults = {slow, late};
  const StudyReport report = study(options);
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults[0].fault, slow);
  EXPECT_THAT(report.unmet, testing::ElementsAre(late));
}

TEST(StudyTest, AnErrorThatNamesAHostIsNotAttributedToAClientOrTheController) {
  StudyOptions options = timed_study(2, 2);
  options.programs = {busy_step("step", 4, 1000)};
  options.runs = 20;
  constexpr int64_t kMs = 1'000'000;
  options.faults = {
      {.kind = FaultKind::kDelay, .at_ns = kMs, .for_ns = kMs, .client = 0, .factor = 2},
      {.kind = FaultKind::kStopController, .at_ns = 3 * kMs, .for_ns = kMs},
      {.kind = FaultKind::kKill, .at_ns = 6 * kMs, .host = 0}};
  const StudyReport report = study(options);
  ASSERT_EQ(report.faults.size(), 3u);
  EXPECT_THAT(report.faults[0].named, IsEmpty());
  EXPECT_THAT(report.faults[1].named, IsEmpty());
  EXPECT_THAT(report.faults[2].named, HasSubstr("\"host-0\" is gone"));
}

TEST(StudyTest, AThousandDevicesRunInOneThread) {
  StudyOptions options = timed_study(128, 8);
  options.cluster.memory_bytes = int64_t{64} << 30;
  options.cluster.time = ProcessTime::kModelled;
  options.programs = {busy_step("step", 1024, 1000, 1 << 20)};
  options.runs = 3;
  const StudyReport report = study(options);
  EXPECT_EQ(report.programs[0].done, 3) << report.programs[0].error;
  // One frame to each host and one back, and the client's two.
  EXPECT_GE(report.frames_per_run, 2 * 128);
  EXPECT_LT(report.frames_per_run, 8 * 128);
}

TEST(StudyTest, ACollectiveTakesLongerOverSlowerLinks) {
  const auto makespan = [](int hosts, int devices_per_host, int islands) {
    StudyOptions options = timed_study(hosts, devices_per_host);
    options.cluster.islands = islands;
    options.programs = {busy_step("step", 8, 10, 1 << 20)};
    return study(options).makespan_ns;
  };
  const int64_t in_host = makespan(1, 8, 1);
  const int64_t in_island = makespan(8, 1, 1);
  EXPECT_GT(in_island, in_host);
  EXPECT_GT(makespan(8, 1, 8), in_island);
}

TEST(StudyTest, ModelledWorkOfTheControllerGrowsWithHostsAndNotWithDevices) {
  const auto cost = [](int hosts, int devices_per_host) {
    StudyOptions options = timed_study(hosts, devices_per_host);
    options.cluster.time = ProcessTime::kModelled;
    options.programs = {busy_step("step", hosts * devices_per_host, 1000)};
    return study(options).controller_ns_per_run;
  };
  const double one = cost(4, 1);
  EXPECT_NEAR(cost(4, 8), one, 0.1 * one);
  EXPECT_GT(cost(16, 1), 2 * one);
}

TEST(StudyTest, OnManyHostsAGrantReachesFurtherSinceItCostsMore) {
  const auto frames_per_host = [](int hosts) {
    ProgramBuilder b("sections", Mesh{{{"data", hosts}}});
    Value x = b.input("x", f32({hosts, 1}), {{"data", shard(0)}});
    for (int section = 0; section < 6; ++section) x = timed(x, 400);
    b.output("sum", sum(x, {0}));
    StudyOptions options = timed_study(hosts, 1);
    options.programs.assign(2, b.build());
    return static_cast<double>(study(options).controller.frames_out) / (2 * options.runs * hosts);
  };
  const double few = frames_per_host(4), many = frames_per_host(96);
  EXPECT_GT(few, 5) << "a prepare, a free, and grants of a section or two";
  EXPECT_LT(many, few - 1);
}

TEST(StudyTest, RealValuesAreComputedOnlyWhereTheyAreWanted) {
  for (const bool timed_only : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = 3});
    reactor->run([&] {
      SimCluster cluster(*reactor, {.timed_only = timed_only});
      Client client = cluster.connect("client");
      {
        Slice slice = client.allocate({.devices = 4});
        const Executable step = slice.compile(busy_step("step", 4, 10));
        const HostTensor ones = HostTensor::of<float>({4, 1}, {1, 1, 1, 1});
        const HostTensor sum = step.run({{"x", ones}})["sum"].to_host();
        EXPECT_EQ(sum.as<float>()[0], timed_only ? 0.0f : 4.0f);
      }
      client.close();
    });
  }
}

TEST(StudyTest, TimeAloneNeedsNeitherMemoryNorData) {
  ProgramBuilder b("train", Mesh{{{"data", 8}}});
  // 64 GiB on each device, and as much for its next value.
  Value w = b.state("w", zeros(f32({1 << 17, 1 << 17})));
  Value tokens = b.source(
      "tokens", {"text", {{"path", "/nowhere/text.txt"}, {"seed", int64_t{1}}, {"heldout", false}}},
      i32({8, 17}), {{"data", shard(0)}});
  b.update(w, w + sum(convert(tokens, DType::kF32)));
  b.output("seen", sum(convert(tokens, DType::kF32)));
  StudyOptions options = timed_study(2, 4);
  options.cluster.memory_bytes = int64_t{160} << 30;
  options.programs = {b.build()};
  const StudyReport report = study(options);
  EXPECT_EQ(report.programs[0].done, options.runs) << report.programs[0].error;
}

TEST(StudyTest, DevicesWithoutValuesShareNoMemoryForThem) {
  const auto needed = [](bool timed_only) {
    int64_t bytes = 0;
    auto reactor = Reactor::make_simulated({.seed = 3});
    reactor->run([&] {
      SimCluster cluster(*reactor, {.timed_only = timed_only});
      Client client = cluster.connect("client");
      {
        const Slice slice = client.allocate({.devices = 4});
        bytes = slice.compile(busy_step("step", 4, 10, 1 << 20), CompileOptions{1})
                    .memory()
                    .devices[0]
                    .slots;
      }
      client.close();
    });
    return bytes;
  };
  EXPECT_GT(needed(false) - needed(true), 1 << 20);  // The result of an all-reduce of 4 MiB.
}

TEST(StudyTest, AMeshIsResizedByTheNamesOfItsAxes) {
  const Program small = busy_step("step", 2, 10);
  EXPECT_THROW(with_mesh(small, {{"model", 4}}), Error);
  const Program large = with_mesh(busy_step("step", 8, 10), {{"data", 4}});
  EXPECT_EQ(large.slices[0].mesh.devices(), 4);
  StudyOptions options = timed_study(2, 2);
  options.programs = {large};
  EXPECT_EQ(study(options).programs[0].done, options.runs);
}

TEST(StudyTest, AMeshIsResizedInTheBodiesOfLoopsToo) {
  ProgramBuilder b("loop", Mesh{{{"data", 4}}});
  const Value x = b.input("x", f32({8, 4}), {{"data", shard(0)}});
  const Value w = b.state("w", zeros(f32({3, 4, 4})));
  b.output("y", sum(scan(x.builder(), {.length = 3, .carries = x, .stacked = w},
                         [](const ScanStep& at) -> Scanned {
                           return {.carries = dot(at.carries, at.slices)};
                         })
                        .carries));
  StudyOptions options = timed_study(1, 2);
  options.programs = {with_mesh(b.build(), {{"data", 2}})};
  EXPECT_EQ(study(options).programs[0].done, options.runs);
}

// Two programs on shared devices, with faults, in modelled time.
StudyOptions replayed(uint64_t seed) {
  StudyOptions options = timed_study(4, 2);
  options.cluster.time = ProcessTime::kModelled;
  options.programs = {busy_step("step", 8, 300), busy_step("step", 8, 700)};
  options.seed = seed;
  options.faults_seed = seed;
  options.time_limit_ns = 600'000'000'000;
  return options;
}

TEST(StudyTest, ASeedRepeatsASimulationExactlyAlsoInAnotherProcess) {
  const StudyReport here = study(replayed(11));
  const StudyReport again = study(replayed(11));
  EXPECT_EQ(here.replay_hash, again.replay_hash);
  EXPECT_EQ(here.makespan_ns, again.makespan_ns);
  EXPECT_NE(here.replay_hash, study(replayed(12)).replay_hash);
  EXPECT_EQ(here.programs[1].name, "step#2");

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t there = study(replayed(11)).replay_hash;
    _exit(::write(ends[1], &there, sizeof there) == sizeof there ? 0 : 1);
  }
  uint64_t there = 0;
  close(ends[1]);
  ASSERT_EQ(::read(ends[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(here.replay_hash, there);
}

}  // namespace
}  // namespace gangway
