// Two programs take turns on the same cards, and one of them has no collectives. A collective of
// the other one that fails does not fail its runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/cuda/emulated_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr PlanId kReducing{1}, kBeside{2};
constexpr uint64_t kSeeds = 25, kRuns = 6;
constexpr int64_t kWide = 8;

struct Shape {
  uint32_t hosts, devices, cards;  // Devices and cards of each host.
};
constexpr Shape kTwoCards{1, 2, 2}, kTwoHosts{2, 1, 1}, kOneCard{1, 2, 1};

// Five all-reduces, each of which needs the one before. Other runs come while one waits for its
// members.
std::shared_ptr<const Plan> reducing(const Shape& shape) {
  TestPlan t("reducing", shape.hosts, shape.devices);
  const Type rows = f32({2, kWide});
  Builder b("reducing", t.mesh());
  Value x = b.parameter("x", rows, {{"data", shard(0)}});
  Value y = sum(x, {0});
  for (int more = 0; more < 4; ++more) y = sum(x * broadcast_to(y, {2, kWide}), {0});
  b.result("y", y);
  t.call("reduce", t.function(b.build()), {t.input("x", rows, {shard(0)})},
         {t.output("y", f32({kWide}))});
  return t.share();
}

std::shared_ptr<const Plan> beside(const Shape& shape) {
  TestPlan t("beside", shape.hosts, shape.devices);
  const Type rows = f32({2, kWide});
  Builder b("beside", t.mesh());
  b.result("y", b.parameter("x", rows, {{"data", shard(0)}}) + 1.0);
  t.call("add", t.function(b.build()), {t.input("x", rows, {shard(0)})},
         {t.output("y", rows, {shard(0)})});
  return t.share();
}

RunFrame request(PlanId plan, uint64_t run) {
  return {.plan = plan,
          .run = RunId(run),
          .arguments = {{0, ArrayId(100 + plan.value), {}}},
          .outputs = {ArrayId(1000 + run)}};
}

class CudaOwnerTest : public testing::TestWithParam<uint64_t> {
 protected:
  // Some of kRuns runs of the program with collectives fail; no run of the other program fails.
  void expect_beside_unharmed(const Shape& shape, cuda::StatusKind kind) {
    EmulatedHosts t(GetParam(), shape.hosts, shape.devices, shape.cards);
    t->install(kReducing, reducing(shape));
    t->install(kBeside, beside(shape), {2});
    std::vector<float> x(2 * kWide), want(2 * kWide);
    std::iota(x.begin(), x.end(), 0.0f);
    std::iota(want.begin(), want.end(), 1.0f);
    t->put<float>(ArrayId(101), kReducing, 0, std::vector<float>(2 * kWide, 1.0f));
    t->put<float>(ArrayId(102), kBeside, 0, x);
    t.machine->inject({kind, "all_reduce", uint32_t(GetParam() % 10)});
    for (uint64_t run = 1; run <= kRuns; ++run) {
      t->start(request(kReducing, run));
      for (uint64_t k = 0; k < 3; ++k) t->start(request(kBeside, 100 + 3 * run + k));
    }
    uint64_t failed = 0;
    for (uint64_t run = 1; run <= kRuns; ++run) {
      const Done done = t->wait(RunId(run));
      failed += done.error ? 1 : 0;
      for (uint64_t k = 0; k < 3; ++k) {
        const uint64_t other = 100 + 3 * run + k;
        const Done unharmed = t->wait(RunId(other));
        ASSERT_FALSE(unharmed.error) << unharmed.error->what();
        EXPECT_EQ(t->get<float>(ArrayId(1000 + other), 2 * kWide), want);
      }
    }
    EXPECT_GE(failed, 1u);
    EXPECT_LT(failed, kRuns);
    // Where devices share a card, a device whose reduction did not start goes on with what its
    // buffer holds, which the emulated driver may report.
    if (shape.cards == shape.devices) {
      EXPECT_EQ(t.reports(), "");
    }
  }
};

TEST_P(CudaOwnerTest, ACollectiveThatDoesNotStartFailsNoRunOfAnotherProgram) {
  for (const Shape& shape : {kTwoCards, kTwoHosts, kOneCard})
    ASSERT_NO_FATAL_FAILURE(expect_beside_unharmed(shape, cuda::StatusKind::kLaunch));
}

TEST_P(CudaOwnerTest, ACommunicatorThatBreaksFailsNoRunOfAnotherProgram) {
  for (const Shape& shape : {kTwoCards, kTwoHosts})
    ASSERT_NO_FATAL_FAILURE(expect_beside_unharmed(shape, cuda::StatusKind::kAborted));
}

// Bytes that the hosts count for the collectives that were launched so far.
uint64_t moved(EmulatedHosts& t) {
  uint64_t bytes = 0;
  for (const auto& host : t->hosts) {
    for (const uint64_t link : host->moved_bytes()) bytes += link;
  }
  return bytes;
}

TEST_P(CudaOwnerTest, AProgramThatIsGivenUpTellsThoseThatShareItsCommunicatorWhy) {
  constexpr PlanId kSharing{3};
  EmulatedHosts t(GetParam(), 2, 1);
  for (const PlanId plan : {kReducing, kSharing})
    t->install(plan, reducing(kTwoHosts), {plan.value});
  t->put<float>(ArrayId(101), kReducing, 0, std::vector<float>(2 * kWide, 1.0f));
  t->put<float>(ArrayId(103), kSharing, 0, std::vector<float>(2 * kWide, 1.0f));
  const uint64_t before = moved(t);
  t->start(request(kReducing, 1));
  ASSERT_FALSE(t->wait(RunId(1)).error);
  const uint64_t after = moved(t);
  t.machine->hold("all_reduce");
  t->start(request(kReducing, 2));
  t->start(request(kSharing, 3));
  while (moved(t) - after < 2 * (after - before)) t.reactor().run_ready();
  for (auto& host : t->hosts) host->cancel(RunId(2), ErrorKind::kUnavailable, "host-2 is gone");
  while (t.machine->communicators_aborted() < 2) t.reactor().run_ready();
  t.machine->release();
  const Done sharing = t->wait(RunId(3));
  ASSERT_TRUE(sharing.error);
  EXPECT_TRUE(sharing.is_origin);
  EXPECT_THAT(sharing.error->what(), HasSubstr("a program that shares it was given up"));
  t->start(request(kSharing, 4));
  EXPECT_FALSE(t->wait(RunId(4)).error);
  EXPECT_EQ(t.reports(), "");
}

// y = x + 1, where x is the other program's result. `commits`: it also writes a state.
std::shared_ptr<const Plan> taking(const Shape& shape, bool commits) {
  TestPlan t("taking", shape.hosts, shape.devices);
  const Type row = f32({kWide});
  Builder b("taking", t.mesh());
  b.result("y", b.parameter("x", row) + 1.0);
  const uint32_t x = t.input("x", row);
  if (!commits) {
    t.call("add", t.function(b.build()), {x}, {t.output("y", row)});
    return t.share();
  }
  Value w = b.parameter("w", row);
  b.result("w", w + 1.0);
  const uint32_t state = t.state("w", row, 0.0), y = t.output("y", row);
  const uint32_t call =
      t.call("add", t.function(b.build(), {.in_place = {{1, 1}}}), {x, state}, {y, state});
  t.gate();
  t.commit(call);
  return t.share();
}

TEST_P(CudaOwnerTest, ARunThatTakesTheResultOfOneThatFailsOnItsCardCommitsNothing) {
  for (const bool commits : {false, true}) {
    EmulatedHosts t(GetParam(), 2, 1);
    t->install(kReducing, reducing(kTwoHosts));
    t->install(kBeside, taking(kTwoHosts, commits), {2});
    t->put<float>(ArrayId(101), kReducing, 0, std::vector<float>(2 * kWide, 1.0f));
    t->start(request(kReducing, 1));
    ASSERT_FALSE(t->wait(RunId(1)).error);
    t.machine->inject({cuda::StatusKind::kAborted, "all_reduce", uint32_t(GetParam() % 10)});
    t->start(request(kReducing, 2));
    t->start({.plan = kBeside,
              .run = RunId(3),
              .arguments = {{0, ArrayId(1002), {}}},
              .outputs = {ArrayId(1003)}});
    ASSERT_TRUE(t->wait(RunId(2)).error);
    const Done taken = t->wait(RunId(3));
    ASSERT_TRUE(taken.error);
    EXPECT_THAT(taken.error->what(), HasSubstr("communicator"));
    if (commits) {
      EXPECT_THAT(t->read_state<float>("w", kWide, {2}), testing::Each(0.0f));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaOwnerTest, testing::Range(uint64_t{1}, kSeeds + 1),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
