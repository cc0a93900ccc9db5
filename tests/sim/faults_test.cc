// Faults drawn from a seed, in small simulated clusters: whatever goes wrong, every run ends once,
// nothing is left behind, and errors name the failed host in time.
#include "sim/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gangway.h"
#include "sim/study.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::faults_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kHostTimeoutMs = 4000;
constexpr int64_t kHeartbeatMs = 400;

// A step that computes for `microseconds`, reduces over all devices and updates a state.
Program step_of(const std::string& name, int64_t devices, int64_t microseconds) {
  ProgramBuilder b(name, Mesh{{{"data", devices}}});
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({devices, 8}), {{"data", shard(0)}});
  Value next = w + sum(timed(x, microseconds), {0});
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

StudyOptions faulty(uint64_t seed) {
  const int hosts = 2 + static_cast<int>(seed % 3);
  StudyOptions options{.cluster = {.hosts = hosts,
                                   .devices_per_host = 2,
                                   .islands = 1 + static_cast<int>(seed % 2),
                                   .heartbeat_interval_ms = kHeartbeatMs,
                                   .host_timeout_ms = kHostTimeoutMs,
                                   .time = ProcessTime::kModelled},
                       .runs = 12,
                       .seed = seed,
                       .faults_seed = seed,
                       .faults_within_ns = 5 * kMillisecond,
                       .time_limit_ns = 120'000 * kMillisecond};
  options.programs = {step_of("one", 2 * hosts, 200), step_of("other", 2 * hosts, 500)};
  return options;
}

// Faults are drawn with integers alone, and so are the same on every machine.
TEST(Faults, ASeedDrawsTheSameFaultsOnEveryMachine) {
  EXPECT_EQ(
      to_string(draw_faults(7, {})),
      "at 2.31 ms: 12 % of the frames between host-0 and the controller are repeated for 1.34 "
      "s\nat 236 ms: host-1 computes 15 times slower for 4.22 s\nat 525 ms: host-0 hangs for "
      "1.11 s\n");
  EXPECT_EQ(
      to_string(draw_faults(11, {.hosts = 8, .clients = 3})),
      "at 151 ms: host-4 and the controller do not reach each other for 1.42 s\nat 375 ms: 3 % "
      "of the frames between host-2 and the controller are lost for 660 ms\n");
}

TEST(Faults, ABrokenLinkSaysWhichWayItIsBroken) {
  Fault fault{.kind = FaultKind::kBreakLink, .at_ns = kMillisecond, .host = 2, .peer = 0};
  EXPECT_EQ(to_string(fault),
            "at 1.00 ms: what host-2 writes to host-0 is lost, and the other way");
  fault.ways = LinkWays::kThere;
  EXPECT_EQ(to_string(fault), "at 1.00 ms: what host-2 writes to host-0 is lost");
  EXPECT_TRUE(may_fail_runs(fault, kHostTimeoutMs * kMillisecond));
  EXPECT_FALSE(ends_host(fault, kHostTimeoutMs * kMillisecond)) << "the controller decides";
}

// The longest time from a fault to the error of a program that it ends.
int64_t bound_ns(const StudyReport& report) {
  int64_t ns = (kHostTimeoutMs + kHostTimeoutMs / 4 + kHeartbeatMs) * kMillisecond;
  for (const FaultReport& fault : report.faults) {
    if (fault.fault.kind == FaultKind::kStopController) ns += fault.fault.for_ns;
  }
  return ns + 50 * kMillisecond;
}

// Expects that a fault explains the error of the program of client `number`, and is named in time.
void expect_named(const StudyReport& report, size_t number) {
  const ProgramReport& program = report.programs[number];
  const int64_t timeout_ns = kHostTimeoutMs * kMillisecond;
  const auto explains = [&](const FaultReport& fault) {
    if (!may_fail_runs(fault.fault, timeout_ns) || fault.at_ns > program.error_at_ns) return false;
    if (fault.fault.client) return static_cast<size_t>(*fault.fault.client) == number;
    return program.error.find(SimCluster::host_name(fault.fault.host)) != std::string::npos;
  };
  EXPECT_TRUE(program.error.empty() ||
              std::any_of(report.faults.begin(), report.faults.end(), explains))
      << "no fault explains: " << program.error;
  for (const FaultReport& fault : report.faults) {
    if (!ends_host(fault.fault, timeout_ns) || program.done == program.submitted) continue;
    EXPECT_LE(program.error_at_ns - fault.at_ns, bound_ns(report)) << to_string(fault.fault);
  }
}

void expect_whole(const StudyOptions& options, const StudyReport& report) {
  const int64_t timeout_ns = kHostTimeoutMs * kMillisecond;
  const bool may_fail =
      std::any_of(report.faults.begin(), report.faults.end(),
                  [&](const FaultReport& fault) { return may_fail_runs(fault.fault, timeout_ns); });
  for (size_t number = 0; number < report.programs.size(); ++number) {
    const ProgramReport& program = report.programs[number];
    EXPECT_EQ(program.submitted, program.done + program.failed);
    if (!may_fail) {
      EXPECT_EQ(program.done, options.runs) << program.error;
    }
    if (program.done < options.runs) {
      EXPECT_THAT(program.error, Not(IsEmpty()));
    }
    expect_named(report, number);
  }
  EXPECT_EQ(report.left.total(), 0u);
  EXPECT_EQ(report.left_bytes, 0);
  EXPECT_EQ(report.left_fibers, 0u);
}

void try_seeds(uint64_t first, int count) {
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    const StudyOptions options = faulty(seed);
    const StudyReport report = study(options);
    std::string faults;
    for (const FaultReport& fault : report.faults) faults += to_string(fault.fault) + "\n";
    SCOPED_TRACE(cat("seed ", seed, ", ", options.cluster.hosts, " hosts:\n", faults));
    expect_whole(options, report);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FaultsTest, EveryRunEndsOnceNothingIsLeftAndLostHostsAreNamedInTime) {
  try_seeds(tests::test_seed(), 200);
}

// The report of a fault that happens while programs run that take six seconds together.
constexpr int kLongRuns = 200;
StudyReport after(const Fault& fault) {
  StudyOptions options = faulty(2);
  options.faults_seed.reset();
  options.faults = {fault};
  options.runs = kLongRuns;
  const int64_t devices = 2 * options.cluster.hosts;
  options.programs = {step_of("one", devices, 10'000), step_of("other", devices, 20'000)};
  return study(options);
}

// Time from the fault to the programs' errors, which must name host-1.
int64_t named_after_ns(const StudyReport& report) {
  EXPECT_EQ(report.faults.size(), 1u);
  for (const ProgramReport& program : report.programs) {
    EXPECT_THAT(program.error, HasSubstr("\"host-1\" is gone"));
    EXPECT_LE(program.error_at_ns - report.faults[0].at_ns, report.faults[0].named_after_ns * 2);
  }
  return report.faults[0].named_after_ns;
}

TEST(FaultsTest, AHostWhoseConnectionEndsIsNamedAtOnce) {
  for (const FaultKind kind : {FaultKind::kKill, FaultKind::kBreak}) {
    const StudyReport report = after({.kind = kind, .at_ns = kMillisecond, .host = 1});
    EXPECT_LT(named_after_ns(report), kMillisecond) << to_string(kind);
    for (const ProgramReport& program : report.programs)
      EXPECT_THAT(program.error, HasSubstr("is gone: its connection ended"));
  }
}

TEST(FaultsTest, ASilentHostIsNamedWhenItsTimeIsUp) {
  for (const FaultKind kind : {FaultKind::kVanish, FaultKind::kHang, FaultKind::kPartition}) {
    const StudyReport report = after({.kind = kind,
                                      .at_ns = kMillisecond,
                                      .for_ns = 2 * kHostTimeoutMs * kMillisecond,
                                      .host = 1});
    EXPECT_GT(named_after_ns(report), (kHostTimeoutMs - kHeartbeatMs) * kMillisecond)
        << to_string(kind);
    EXPECT_LT(named_after_ns(report), bound_ns(report)) << to_string(kind);
  }
}

TEST(FaultsTest, FaultsThatOnlyDelayForAWhileFailNoRun) {
  for (const FaultKind kind :
       {FaultKind::kHang, FaultKind::kPartition, FaultKind::kSlow, FaultKind::kDelay,
        FaultKind::kStopController, FaultKind::kLoseFrames, FaultKind::kRepeatFrames,
        FaultKind::kSwapFrames}) {
    const StudyReport report = after({.kind = kind,
                                      .at_ns = kMillisecond,
                                      .for_ns = kHostTimeoutMs / 2 * kMillisecond,
                                      .host = 1,
                                      .factor = kind <= FaultKind::kSwapFrames ? 0.1 : 10});
    for (const ProgramReport& program : report.programs)
      EXPECT_EQ(program.done, kLongRuns) << to_string(kind) << ": " << program.error;
    // Faults that stop a device delay the programs, which undisturbed take little more than six
    // seconds.
    const bool stops = kind == FaultKind::kHang || kind == FaultKind::kSlow;
    EXPECT_GT(report.makespan_ns, (stops ? 6'800 : 6'000) * kMillisecond) << to_string(kind);
  }
}

TEST(FaultsTest, AClientThatIsNotReachedForAWhileOrStandsStillLosesNothing) {
  for (const FaultKind kind :
       {FaultKind::kHang, FaultKind::kPartition, FaultKind::kDelay, FaultKind::kLoseFrames,
        FaultKind::kRepeatFrames, FaultKind::kSwapFrames}) {
    const StudyReport report = after({.kind = kind,
                                      .at_ns = kMillisecond,
                                      .for_ns = 2 * kHostTimeoutMs * kMillisecond,
                                      .client = 1,
                                      .factor = kind <= FaultKind::kSwapFrames ? 0.1 : 10});
    ASSERT_EQ(report.programs.size(), 2u);
    for (const ProgramReport& program : report.programs)
      EXPECT_EQ(program.done, kLongRuns) << to_string(kind) << ": " << program.error;
    // Programs that get no frames for that long end later; undisturbed they take six seconds.
    const bool stands = kind == FaultKind::kHang || kind == FaultKind::kPartition;
    EXPECT_GT(report.makespan_ns, (stands ? 8'000 : 6'000) * kMillisecond) << to_string(kind);
  }
}

TEST(FaultsTest, AClientWhoseConnectionsBreakAttachesAgainAndLosesNoRun) {
  const StudyReport report = after({.kind = FaultKind::kBreak, .at_ns = kMillisecond, .client = 1});
  ASSERT_EQ(report.programs.size(), 2u);
  for (const ProgramReport& program : report.programs)
    EXPECT_EQ(program.done, kLongRuns) << program.error;
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults[0].named, "");
  EXPECT_EQ(report.left.total(), 0u);
}

TEST(FaultsTest, AProgramIsRefusedWhereMemoryIsExhaustedNamingTheHost) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    Client client = cluster.connect("client");
    {
      Slice slice = client.allocate({.devices = 4});
      cluster.exhaust_memory(1);
      const Error error = error_of([&] { slice.compile(step_of("step", 4, 10)); });
      EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(error.what(), HasSubstr("host-1"));
      cluster.free_memory(1);
      slice.compile(step_of("step", 4, 10));
    }
    client.close();
  });
}

TEST(FaultsTest, TheSameSeedDrawsTheSameFaultsAndSaysWhatTheyAre) {
  const FaultLimits limits{.hosts = 8, .clients = 3};
  EXPECT_EQ(draw_faults(7, limits), draw_faults(7, limits));
  std::vector<int> seen(kFaultKinds, 0), of_clients(kFaultKinds, 0);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const Fault& fault : draw_faults(seed, limits)) {
      ++seen[static_cast<size_t>(fault.kind)];
      if (fault.client) ++of_clients[static_cast<size_t>(fault.kind)];
      const std::string who =
          fault.client ? SimCluster::client_name(*fault.client) : SimCluster::host_name(fault.host);
      EXPECT_THAT(to_string(fault),
                  AnyOf(HasSubstr(who), HasSubstr("the controller stands still")));
      EXPECT_LT(fault.at_ns, limits.within_ns);
    }
  }
  for (int count : seen) EXPECT_GT(count, 0);
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    const auto each = static_cast<FaultKind>(kind);
    EXPECT_EQ(of_clients[static_cast<size_t>(kind)] > 0,
              each <= FaultKind::kBreak || each == FaultKind::kHang)
        << to_string(each);
  }
}

}  // namespace
}  // namespace gangway::faults_test
