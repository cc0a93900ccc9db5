#include <gtest/gtest.h>

#include <algorithm>

#include "executor/host/host.h"
#include "ir/build/ops.h"
#include "tests/support/golden/trace_hash.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway::host_transfer_test {
namespace {

constexpr PlanId kPlan{1};

class HostTransferTest : public testing::TestWithParam<DeviceKind> {
 protected:
  HostTransferTest()
      : reactor(GetParam() == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real()) {
  }
  std::unique_ptr<Reactor> reactor;
};

RunFrame request_of(uint64_t run) {
  return {.plan = kPlan,
          .run = RunId(run),
          .arguments = {{0, {}, std::vector<std::byte>(4)}},
          .outputs = {ArrayId(1000 + run)}};
}

TEST_P(HostTransferTest, AChainThatAlternatesBetweenTwoHostsGoesOnRunAfterRun) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, TestPlan::alternating_chain(2, 1, 16));
  for (uint64_t run = 1; run <= 30; ++run) t.start(request_of(run));
  for (uint64_t run = 1; run <= 30; ++run) {
    const Done done = t.wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_EQ(t.item<float>(RunId(run), 0), 16.0f);
  }
}

uint64_t moved(const TestHosts& t, LinkClass link) {
  uint64_t sum = 0;
  for (const auto& host : t.hosts) sum += host->moved_bytes()[static_cast<size_t>(link)];
  return sum;
}

TEST_P(HostTransferTest, BytesOfATransferCountForTheLinkBetweenItsHosts) {
  const Type type = f32({300});
  constexpr uint64_t kTransfers = 5, kRuns = 3;
  const auto run_over = [&](std::vector<std::string> islands) {
    auto t = std::make_unique<TestHosts>(*reactor, 2, 1, GetParam());
    auto plan = std::make_shared<Plan>(*TestPlan::alternating_chain(2, 1, kTransfers + 1, type));
    plan->islands = std::move(islands);
    t->install(kPlan, plan);
    t->put<float>(ArrayId(1), kPlan, 0, std::vector<float>(300, 1.0f));
    EXPECT_EQ(moved(*t, LinkClass::kHost), 1200u);  // The client's copy.
    for (uint64_t run = 1; run <= kRuns; ++run) {
      t->start({.plan = kPlan,
                .run = RunId(run),
                .arguments = {{0, ArrayId(1), {}}},
                .outputs = {ArrayId(1000 + run)}});
      EXPECT_FALSE(t->wait(RunId(run)).error);
    }
    EXPECT_EQ(moved(*t, LinkClass::kHost), 1200u);
    return t;
  };
  const uint64_t expected = kRuns * kTransfers * 1200;
  for (const std::vector<std::string>& one : {std::vector<std::string>{}, {"main", "main"}}) {
    const auto t = run_over(one);
    EXPECT_EQ(moved(*t, LinkClass::kIsland), expected);
    EXPECT_EQ(moved(*t, LinkClass::kBetweenIslands), 0u);
  }
  const auto t = run_over({"east", "west"});
  EXPECT_EQ(moved(*t, LinkClass::kIsland), 0u);
  EXPECT_EQ(moved(*t, LinkClass::kBetweenIslands), expected);
}

TEST_P(HostTransferTest, AnAllReduceCountsWhatMembersMoveInTheirHostAndHostsSendOneAnother) {
  // B bytes; two members on each of two hosts.
  const auto counted = [&](int64_t elements) {
    TestHosts t(*reactor, 2, 2, GetParam());
    auto plan = std::make_shared<Plan>(*TestPlan::all_reduce(2, 2, elements));
    plan->islands = {"east", "west"};
    t.install(kPlan, plan);
    t.put<float>(ArrayId(1), kPlan, 0, std::vector<float>(static_cast<size_t>(4 * elements), 1.0f));
    const uint64_t before = moved(t, LinkClass::kHost);
    t.start({.plan = kPlan,
             .run = RunId(1),
             .arguments = {{0, ArrayId(1), {}}},
             .outputs = {ArrayId(2)}});
    EXPECT_FALSE(t.wait(RunId(1)).error);
    EXPECT_EQ(moved(t, LinkClass::kIsland), 0u);
    return std::pair(moved(t, LinkClass::kHost) - before, moved(t, LinkClass::kBetweenIslands));
  };
  // At most 8 KiB: a host's first member reads B of the second one, sends B to the other host, and
  // the second one reads B of the answer.
  EXPECT_EQ(counted(100), std::pair(uint64_t{2 * 2 * 400}, uint64_t{2 * 400}));
  // Above: each member reads and writes half of the other one's B; hosts send half of B as partial
  // and half as result.
  EXPECT_EQ(counted(10'000), std::pair(uint64_t{2 * 2 * 40'000}, uint64_t{2 * 40'000}));
}

// y = x + 1 on device 0, after two milliseconds.
std::shared_ptr<const Plan> slow_maker() {
  TestPlan t("maker", 1, 2);
  t.plan().slices = {{TestPlan::mesh_of(1), {{0, 0, 1}}}};
  Builder b("next", TestPlan::mesh_of(1));
  b.result("y", timed(b.parameter("x", f32()), 2000) + 1.0);
  const uint32_t x = t.input("x", f32()), y = t.output("y", f32());
  t.call("next", t.function(b.build()), {x}, {y});
  return t.share();
}

// z = y + 1 on device 1, where y is an input that lies on device 0.
std::shared_ptr<const Plan> sends_its_input() {
  TestPlan t("taker", 1, 2);
  const Mesh mesh = TestPlan::mesh_of(1);
  t.plan().slices = {{mesh, {{0, 0, 1}}}, {mesh, {{0, 1, 1}}}};
  Builder b("next", mesh);
  b.result("z", b.parameter("y", f32()) + 1.0);
  const uint32_t y = t.input("y", f32());
  const uint32_t there = t.value("", PlanStorage::kTemporary, f32(), {}, 1);
  const uint32_t z = t.value("z", PlanStorage::kOutput, f32(), {}, 1);
  t.plan().outputs.push_back(z);
  t.transfer(y, there);
  t.call("next", t.function(b.build()), {there}, {z}, 1);
  return t.share();
}

TEST_P(HostTransferTest, AnInputThatAnotherRunStillFillsIsSentOnceItIsFilled) {
  constexpr PlanId kTaker{2};
  for (const bool fails : {false, true}) {
    TestHosts t(*reactor, 1, 2, GetParam());
    t.install(kPlan, slow_maker());
    t.install(kTaker, sends_its_input(), {2});
    RunFrame maker = request_of(1);
    if (fails) maker.arguments[0].bytes.resize(8);  // It does not fit.
    t.start(maker);
    t.start({.plan = kTaker,
             .run = RunId(2),
             .arguments = {{0, ArrayId(1001), {}}},
             .outputs = {ArrayId(2000)}});
    const Done done = t.wait(RunId(2));
    EXPECT_EQ(done.error.has_value(), fails) << (fails ? "it was never filled" : "");
    if (!fails) {
      EXPECT_EQ(t.item<float>(RunId(2), 0), 2.0f);
    }
    t.wait(RunId(1));
  }
}

TEST_P(HostTransferTest, DevicesOfOneHostHandOverTheSameWay) {
  TestHosts t(*reactor, 1, 2, GetParam());
  t.install(kPlan, TestPlan::alternating_chain(1, 2, 7));
  t.start(request_of(1));
  EXPECT_FALSE(t.wait(RunId(1)).error);
  EXPECT_EQ(t.item<float>(RunId(1), 0), 7.0f);
}

TEST_P(HostTransferTest, ASenderThatFailedPoisonsTheReceiverAndTheNextRunIsClean) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, TestPlan::alternating_chain(2, 1, 2));
  RunFrame bad = request_of(1);
  bad.arguments.clear();
  t.start_on(0, bad);
  t.start_on(1, request_of(1));
  EXPECT_EQ(t.wait(RunId(1)).error->kind(), ErrorKind::kInvalid);
  EXPECT_EQ(t.logs[1]->done[RunId(1)].error->kind(), ErrorKind::kUnavailable);
  t.start(request_of(2));
  EXPECT_FALSE(t.wait(RunId(2)).error);
  EXPECT_EQ(t.item<float>(RunId(2), 0), 2.0f);
}

TEST_P(HostTransferTest, UninstallingAPlanEndsARunThatWaitsForAPeer) {
  TestHosts t(*reactor, 2, 1, GetParam());
  t.install(kPlan, TestPlan::alternating_chain(2, 1, 2));
  t.start_on(1, request_of(1));  // Its sender never starts.
  t.hosts[1]->uninstall(kPlan);
  reactor->run_until([&] { return t.logs[1]->done.contains(RunId(1)); });
  EXPECT_EQ(t.logs[1]->done[RunId(1)].error->kind(), ErrorKind::kCancelled);
}

// y = x summed over all rows, from a source cut over all devices.
std::shared_ptr<const Plan> source_plan(uint32_t hosts, uint32_t devices) {
  TestPlan t("sourced", hosts, devices);
  Builder b("sum", t.mesh());
  Value x = b.parameter("x", i32({8, 3}), {{"data", shard(0)}});
  b.result("y", sum(convert(x, DType::kF32)));
  const uint32_t function = t.function(b.build());
  const uint32_t x_value = t.value("x", PlanStorage::kTemporary, i32({8, 3}), {shard(0)});
  Attrs attrs;
  attrs.set("kind", std::string("counter"));
  t.plan().sources.push_back(
      t.node({.kind = PlanNodeKind::kSource, .name = "x", .results = {x_value}, .attrs = attrs}));
  t.call("sum", function, {x_value}, {t.output("y", f32())});
  return t.share();
}

TEST_P(HostTransferTest, ASourceFillsEachDevicesRowsAtTheRunsPosition) {
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, source_plan(2, 2));
  for (uint64_t run = 1; run <= 10; ++run) {
    t.start({.plan = kPlan,
             .run = RunId(run),
             .outputs = {ArrayId(run)},
             .source_positions = {run + 4}});
  }
  for (uint64_t run = 1; run <= 10; ++run) {
    EXPECT_FALSE(t.wait(RunId(run)).error);
    const auto first = static_cast<float>((run + 4) * 24);
    EXPECT_EQ(t.item<float>(RunId(run), 0), first * 24 + 23 * 24 / 2);
  }
}

// y = the sum of x times its column, from a source whose columns are cut.
TEST_P(HostTransferTest, ASourceFillsEachDevicesColumnsToo) {
  TestPlan plan("columns", 2, 2);
  Builder b("sum", plan.mesh());
  Value x = b.parameter("x", i32({3, 8}), {{"data", shard(1)}});
  b.result("y", sum(convert(x * iota(b, i32({3, 8}), 1), DType::kF32)));
  const uint32_t function = plan.function(b.build());
  const uint32_t value = plan.value("x", PlanStorage::kTemporary, i32({3, 8}), {shard(1)});
  plan.plan().sources.push_back(plan.node({.kind = PlanNodeKind::kSource,
                                           .name = "x",
                                           .results = {value},
                                           .attrs = {{"kind", std::string("counter")}}}));
  plan.call("sum", function, {value}, {plan.output("y", f32())});
  TestHosts t(*reactor, 2, 2, GetParam());
  t.install(kPlan, plan.share());
  t.start({.plan = kPlan, .run = RunId(1), .outputs = {ArrayId(1)}, .source_positions = {2}});
  EXPECT_FALSE(t.wait(RunId(1)).error);
  float want = 0;
  for (int i = 0; i < 24; ++i) want += static_cast<float>((48 + i) * (i % 8));
  EXPECT_EQ(t.item<float>(RunId(1), 0), want);
}

// A chain of `timed` calls: what the host has enqueued when the device is not far yet.
TEST_P(HostTransferTest, TheLastNodeIsEnqueuedBeforeTheDeviceHasDoneTheTenth) {
  Tracer tracer(reactor->clock(), "host");
  TraceAttachment attached = tracer.attach("reactor");
  TestPlan plan("timed", 1, 1);
  Builder b("next", plan.mesh());
  b.result("y", timed(b.parameter("x", f32()), 1000));
  const uint32_t function = plan.function(b.build());
  uint32_t now = plan.input("x", f32());
  for (int n = 0; n < 32; ++n) {
    const uint32_t next =
        n == 31 ? plan.output("y", f32()) : plan.value("", PlanStorage::kTemporary, f32());
    plan.call("next", function, {now}, {next});
    now = next;
  }
  {
    TestHosts t(*reactor, 1, 1, GetParam(), &tracer);
    t.install(kPlan, plan.share());
    t.start(request_of(1));
    EXPECT_FALSE(t.wait(RunId(1)).error);
  }
  int64_t enqueued_ns = 0, tenth_ns = 0;
  int enqueued = 0;
  for (const TraceThread& thread : tracer.drain().threads) {
    for (const TraceEvent& event : thread.events) {
      if (event.name == std::string("enqueue")) {
        ++enqueued;
        enqueued_ns = std::max(enqueued_ns, event.end_ns);
      }
      if (event.name == std::string("run") && event.node == 9) tenth_ns = event.end_ns;
    }
  }
  EXPECT_EQ(enqueued, 32);
  EXPECT_LT(enqueued_ns, tenth_ns);
}

TEST(Timeline, EachKernelIsASpanInsideItsCallNamedAsItsOp) {
  auto reactor = Reactor::make_real();
  Tracer tracer(reactor->clock(), "host");
  TestPlan plan("one kernel", 1, 1);
  Builder b("f", plan.mesh());
  b.result("y", exp(b.parameter("x", f32()) * b.parameter("z", f32())));
  const uint32_t function = plan.function(b.build());
  const uint32_t x = plan.input("x", f32());
  plan.call("f", function, {x, x}, {plan.output("y", f32())});
  {
    TestHosts t(*reactor, 1, 1, DeviceKind::kCpu, &tracer);
    t.install(kPlan, plan.share());
    t.start(request_of(1));
    EXPECT_FALSE(t.wait(RunId(1)).error);
  }
  std::vector<TraceEvent> spans;
  for (const TraceThread& thread : tracer.drain().threads) {
    std::ranges::copy_if(thread.events, std::back_inserter(spans), [](const TraceEvent& event) {
      return event.mark != TraceMark::kCounter && event.mark != TraceMark::kRunBegins;
    });
  }
  std::vector<std::string> names;
  for (const TraceEvent& span : spans) names.emplace_back(span.name);
  ASSERT_EQ(names, (std::vector<std::string>{"fusion", "run"}));
  EXPECT_LE(spans[1].begin_ns, spans[0].begin_ns);
  EXPECT_LE(spans[0].end_ns, spans[1].end_ns);
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTransferTest,
                         testing::Values(DeviceKind::kCpu, DeviceKind::kSim),
                         [](const auto& i) { return i.param == DeviceKind::kSim ? "Sim" : "Cpu"; });

TEST(SimulatedHost, TheSameSeedGivesTheSameTrace) {
  const auto trace = [] {
    auto reactor = Reactor::make_simulated({.seed = 5});
    Tracer tracer(reactor->clock(), "host");
    TestHosts t(*reactor, 2, 2, DeviceKind::kSim, &tracer);
    t.install(kPlan, source_plan(2, 2));
    for (uint64_t run = 1; run <= 5; ++run) {
      t.start(
          {.plan = kPlan, .run = RunId(run), .outputs = {ArrayId(run)}, .source_positions = {run}});
    }
    t.wait(RunId(5));
    return trace_hash(tracer.drain());
  };
  EXPECT_EQ(trace(), trace());
}

}  // namespace
}  // namespace gangway::host_transfer_test
