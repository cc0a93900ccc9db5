// Transfers between emulated cards of one host: straight from memory to memory, over many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/cuda/emulated_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway::cuda_transfer_test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 25;

class CudaTransferTest : public testing::TestWithParam<uint64_t> {};

RunFrame request_of(uint64_t run) {
  return {.plan = kPlan,
          .run = RunId(run),
          .arguments = {{0, ArrayId(100), {}}},
          .outputs = {ArrayId(1000 + run)}};
}

const Type kWide = f32({700});

void expect_chains(EmulatedHosts& t, uint32_t hosts, uint32_t devices) {
  t->install(kPlan, TestPlan::alternating_chain(hosts, devices, 9, kWide));
  std::vector<float> x(700), want(700);
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(want.begin(), want.end(), 9.0f);
  t->put<float>(ArrayId(100), kPlan, 0, x);
  for (uint64_t run = 1; run <= 8; ++run) t->start(request_of(run));
  for (uint64_t run = 1; run <= 8; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_EQ(t->get<float>(ArrayId(1000 + run), 700), want);
  }
}

TEST_P(CudaTransferTest, AChainAlternatesBetweenTwoCardsRunAfterRun) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  expect_chains(t, 1, 2);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaTransferTest, AChainAlternatesBetweenTwoDevicesOfOneCardRunAfterRun) {
  EmulatedHosts t(GetParam(), 1, 2);
  expect_chains(t, 1, 2);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaTransferTest, AChainAlternatesBetweenCardsOfTwoHostsThroughHostMemory) {
  EmulatedHosts t(GetParam(), 2, 1);
  expect_chains(t, 2, 1);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaTransferTest, SentValuesLieInTheReceiversPlannedMemory) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  const auto installed = t->install(kPlan, TestPlan::alternating_chain(1, 2, 9, kWide));
  for (uint32_t device = 0; device < 2; ++device) {
    EXPECT_EQ(installed[0].needs[device].total(), t->hosts[0]->bytes_in_use(device));
    EXPECT_GE(installed[0].needs[device].slots, 4 * kWide.bytes());
  }
  EXPECT_EQ(t.reports(), "");
}

// Device 0 sends the state w to device 1, which gives it back, and then adds 1 to it.
std::shared_ptr<const Plan> sent_state() {
  TestPlan t("sent state", 1, 2);
  t.plan().slices = {{TestPlan::mesh_of(1), {{0, 0, 1}}}, {TestPlan::mesh_of(1), {{0, 1, 1}}}};
  Builder step("step", TestPlan::mesh_of(1)), twice("twice", TestPlan::mesh_of(1));
  step.result("w", step.parameter("w", kWide) + 1.0);
  Value x = twice.parameter("x", kWide);
  twice.result("y", x + x);
  const uint32_t w = t.state("w", kWide, 0.0);
  const uint32_t there = t.value("there", PlanStorage::kTemporary, kWide, {}, 1);
  const uint32_t y = t.value("y", PlanStorage::kOutput, kWide, {}, 1);
  t.plan().outputs.push_back(y);
  t.transfer(w, there);
  const uint32_t call = t.call("step", t.function(step.build(), {.in_place = {{0, 0}}}), {w}, {w});
  t.call("twice", t.function(twice.build()), {there}, {y}, 1);
  t.gate();
  t.commit(call);
  return t.share();
}

TEST_P(CudaTransferTest, AStateThatIsSentIsSentAsItWasBeforeTheCommit) {
  for (uint32_t cards : {1u, 2u}) {
    EmulatedHosts t(GetParam(), 1, 2, cards);
    t->install(kPlan, sent_state());
    for (uint64_t run = 1; run <= 6; ++run)
      t->start({.plan = kPlan, .run = RunId(run), .outputs = {ArrayId(run)}});
    for (uint64_t run = 1; run <= 6; ++run) {
      const Done done = t->wait(RunId(run));
      ASSERT_FALSE(done.error) << done.error->what();
      EXPECT_THAT(t->get<float>(ArrayId(run), 700), Each(2.0f * static_cast<float>(run - 1)));
    }
    EXPECT_EQ(t.reports(), "");
  }
}

// Device 0 goes on adding 1 while the value before is still on its way to device 1.
std::shared_ptr<const Plan> sent_underway() {
  TestPlan t("sent underway", 1, 2);
  t.plan().slices = {{TestPlan::mesh_of(1), {{0, 0, 1}}}, {TestPlan::mesh_of(1), {{0, 1, 1}}}};
  Builder next("next", TestPlan::mesh_of(1)), twice("twice", TestPlan::mesh_of(1));
  next.result("y", next.parameter("x", kWide) + 1.0);
  Value x = twice.parameter("x", kWide);
  twice.result("y", x + x);
  const uint32_t add = t.function(next.build()), doubled = t.function(twice.build());
  uint32_t now = t.input("x", kWide);
  for (int n = 0; n < 5; ++n) {
    const uint32_t made = t.value("made", PlanStorage::kTemporary, kWide);
    const uint32_t there = t.value("there", PlanStorage::kTemporary, kWide, {}, 1);
    const uint32_t y = t.value("y", PlanStorage::kOutput, kWide, {}, 1);
    t.plan().outputs.push_back(y);
    t.call("next", add, {now}, {made});
    t.transfer(made, there);
    t.call("twice", doubled, {there}, {y}, 1);
    now = made;
  }
  return t.share();
}

TEST_P(CudaTransferTest, ValuesUnderWayToTheirReceiverAreNotOverwritten) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  t->install(kPlan, sent_underway());
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(700, 1.0f));
  for (uint64_t run = 1; run <= 5; ++run) {
    RunFrame request = request_of(run);
    for (uint64_t n = 1; n < 5; ++n) request.outputs.emplace_back(1000 + run + 100 * n);
    t->start(request);
  }
  for (uint64_t run = 1; run <= 5; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    for (uint64_t n = 0; n < 5; ++n) {
      EXPECT_THAT(t->get<float>(ArrayId(1000 + run + 100 * n), 700),
                  Each(2.0f * static_cast<float>(n + 2)));
    }
  }
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaTransferTest, ASendThatDoesNotStartFailsItsRunAloneAndNamesTheTransfer) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  t->install(kPlan, TestPlan::alternating_chain(1, 2, 9, kWide));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(700, 1.0f));
  t.machine->inject({cuda::StatusKind::kLaunch, "send to", static_cast<uint32_t>(GetParam() % 8)});
  for (uint64_t run = 1; run <= 6; ++run) t->start(request_of(run));
  int failures = 0;
  for (uint64_t run = 1; run <= 6; ++run) {
    const Done done = t->wait(RunId(run));
    if (done.error) {
      ++failures;
      EXPECT_THAT(done.error->what(), HasSubstr("send to host-0/"));
      EXPECT_THAT(done.error->what(), HasSubstr("transfer"));
    } else {
      EXPECT_THAT(t->get<float>(ArrayId(1000 + run), 700), Each(10.0f));
    }
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaTransferTest, ACardThatIsLostEndsItsRunsAndHoldsNobody) {
  for (const char* op : {"send to", "next"}) {
    EmulatedHosts t(GetParam(), 1, 2, 2);
    t->install(kPlan, TestPlan::alternating_chain(1, 2, 9, kWide));
    t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(700, 1.0f));
    t.machine->inject({cuda::StatusKind::kFault, op, static_cast<uint32_t>(GetParam() % 20)});
    for (uint64_t run = 1; run <= 6; ++run) t->start(request_of(run));
    bool failed = false;
    for (uint64_t run = 1; run <= 6; ++run) failed = t->wait(RunId(run)).error || failed;
    EXPECT_TRUE(failed);
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaTransferTest, AHostMayGoWhileItsCardsSend) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  t->install(kPlan, TestPlan::alternating_chain(1, 2, 9, kWide));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(700, 1.0f));
  for (uint64_t run = 1; run <= 6; ++run) t->start(request_of(run));
  EXPECT_EQ(t.reports(), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaTransferTest, testing::Range(uint64_t{1}, kSeeds + 1),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway::cuda_transfer_test
