// Hosts whose devices are emulated cards: training steps, transfers, and failures of a card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/cuda/card_suites.h"
#include "tests/cuda/emulated_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 8;

class CudaHostTest : public testing::TestWithParam<uint64_t> {};

TEST(CudaHostsTest, TrainOnTwoDevicesOfOneCardOverTwoHundredSeeds) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedHosts t(seed, 1, 2);
    ASSERT_NO_FATAL_FAILURE(expect_training(t, 1, 2));
  }
}

TEST_P(CudaHostTest, TrainsOnTwoHostsWithACardEach) {
  EmulatedHosts t(GetParam(), 2, 1);
  expect_training(t, 2, 1);
}

TEST_P(CudaHostTest, AChainThatAlternatesBetweenTwoHostsGoesOnRunAfterRun) {
  EmulatedHosts t(GetParam(), 2, 1);
  t->install(kPlan, TestPlan::alternating_chain(2, 1, 8));
  const auto request = [](uint64_t run) -> RunFrame {
    return {.plan = kPlan,
            .run = RunId(run),
            .arguments = {{0, {}, std::vector<std::byte>(4)}},
            .outputs = {ArrayId(1000 + run)}};
  };
  for (uint64_t run = 1; run <= 6; ++run) t->start(request(run));
  for (uint64_t run = 1; run <= 6; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_EQ(t->item<float>(RunId(run), 0), 8.0f);
  }
  EXPECT_EQ(t.reports(), "");
}

// Moves all that the hosts have of plan 1 to host memory, or back. Returns the bytes of host memory
// that its states then take.
int64_t move(EmulatedHosts& t, bool to_host) {
  int64_t bytes = 0;
  for (auto& host : t->hosts)
    bytes += host->move_states({.plans = {kPlan}, .scopes = {{1}}, .to_host = to_host}).take();
  return bytes;
}

TEST_P(CudaHostTest, AProgramLeavesItsCardForHostMemoryAndGoesOnWhereItWas) {
  EmulatedHosts t(GetParam(), 1, 2);
  t->install(kPlan, training_step(1, 2));
  const auto card = emulated::driver_of(t.machine, 0);
  for (uint64_t run = 1; run <= 3; ++run) {
    const auto step = [&] {
      t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
      t->start(step_request(kPlan, run, 0.25f));
      const Done done = t->wait(RunId(run));
      EXPECT_FALSE(done.error) << done.error->what();
      const std::vector<ArrayId> arrays{ArrayId(100), ArrayId(1000 + run)};
      t->hosts[0]->free(arrays);
    };
    step();
    const int64_t before = t->hosts[0]->bytes_in_use(0), on_card = card->memory_in_use();
    EXPECT_GT(move(t, true), 0);
    EXPECT_EQ(t->hosts[0]->bytes_in_use(0), 0);
    EXPECT_LT(card->memory_in_use(), on_card);
    EXPECT_EQ(move(t, false), 0);
    EXPECT_EQ(t->hosts[0]->bytes_in_use(0), before);
  }
  EXPECT_THAT(t->read_state<float>("w", 2), Each(2.75f));
  EXPECT_EQ(t->item<float>(RunId(3), 0), 0.5f);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, TransfersBetweenCardsContinueAfterASuspension) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  t->install(kPlan, TestPlan::alternating_chain(1, 2, 8));
  for (uint64_t run = 1; run <= 4; ++run) {
    t->start({.plan = kPlan,
              .run = RunId(run),
              .arguments = {{0, {}, std::vector<std::byte>(4)}},
              .outputs = {ArrayId(1000 + run)}});
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_EQ(t->item<float>(RunId(run), 0), 8.0f);
    move(t, true);
    move(t, false);
  }
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, ALaunchThatFailsPoisonsItsRunAloneAndNamesTheOp) {
  EmulatedHosts t(GetParam(), 1, 2);
  t->install(kPlan, training_step(1, 2));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.machine->inject({cuda::StatusKind::kLaunch, " exp"});
  for (uint64_t run = 1; run <= 2; ++run) t->start(step_request(kPlan, run, 0.25f));
  const Done failed = t->wait(RunId(1)), next = t->wait(RunId(2));
  ASSERT_TRUE(failed.error);
  EXPECT_THAT(failed.error->what(), HasSubstr(" exp"));
  EXPECT_THAT(failed.error->what(), HasSubstr("training_step.h"));
  EXPECT_FALSE(next.error) << next.error->what();
  EXPECT_THAT(t->read_state<float>("w", 2), Each(2.0f));
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, AStickyErrorEndsItsDeviceAndEveryRunOnItAndNamesTheOp) {
  EmulatedHosts t(GetParam(), 1, 1);
  t->install(kPlan, training_step(1, 1));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.machine->inject({cuda::StatusKind::kFault, " exp"});
  for (uint64_t run = 1; run <= 3; ++run) t->start(step_request(kPlan, run, 0.25f));
  for (uint64_t run = 1; run <= 3; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_TRUE(done.error) << run;
    EXPECT_EQ(done.error->kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(done.error->what(), HasSubstr(" exp"));
    EXPECT_THAT(done.error->what(), HasSubstr("host-0/0"));
  }
  t->get<float>(ArrayId(1001), 1);
  EXPECT_TRUE(t->transfer_error);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, ACopyToTheClientThatFailsIsReportedAndHarmsNothingElse) {
  EmulatedHosts t(GetParam(), 1, 1);
  t->install(kPlan, training_step(1, 1));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.machine->inject({cuda::StatusKind::kLaunch, "copy"});
  t->get<float>(ArrayId(100), 16);
  ASSERT_TRUE(t->transfer_error);
  EXPECT_THAT(t->transfer_error->what(), HasSubstr("copy"));
  t.machine->inject({cuda::StatusKind::kLaunch, "copy"});
  t->read_state<float>("w", 2);
  EXPECT_TRUE(t->transfer_error);
  EXPECT_THAT(t->get<float>(ArrayId(100), 16), Each(3.0f));
  EXPECT_FALSE(t->transfer_error);
  EXPECT_EQ(t.reports(), "");
}

// exp(x * x) overflows. The allocation that fails is that of the parameters' flags, then that of
// the values' flags.
TEST_P(CudaHostTest, AReplayThatFailsLeavesTheOpUnnamedSaysWhyAndTheCardGoesOn) {
  for (uint32_t skip = 0; skip < 2; ++skip) {
    EmulatedHosts t(GetParam(), 1, 1);
    t->install(kPlan, training_step(1, 1));
    t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 30.0f));
    t.machine->inject({cuda::StatusKind::kOutOfMemory, "allocate_pinned", skip});
    t->start(step_request(kPlan, 1, 0.25f));
    const Done failed = t->wait(RunId(1));
    ASSERT_TRUE(failed.error);
    EXPECT_EQ(failed.error->kind(), ErrorKind::kInvalid);
    EXPECT_THAT(failed.error->what(), HasSubstr("not finite"));
    EXPECT_THAT(failed.error->what(), HasSubstr("pinned memory"));
    t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
    t->start(step_request(kPlan, 2, 0.25f));
    const Done next = t->wait(RunId(2));
    EXPECT_FALSE(next.error) << next.error->what();
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaHostTest, ALaunchThatFailsInTheReplayIsReportedAndNamesNoOtherOp) {
  EmulatedHosts t(GetParam(), 1, 1);
  t->install(kPlan, training_step(1, 1));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 30.0f));
  t.machine->inject({cuda::StatusKind::kLaunch, "check_finite", 2});  // The step itself has two.
  t->start(step_request(kPlan, 1, 0.25f));
  const Done failed = t->wait(RunId(1));
  ASSERT_TRUE(failed.error);
  EXPECT_THAT(failed.error->what(), HasSubstr("its result is not finite"));
  EXPECT_THAT(failed.error->what(), HasSubstr("check_finite"));
  EXPECT_EQ(t.reports(), "");
}

// z = x + exp(x) + k: both nodes read the inline argument x, and only the second one reads k.
std::shared_ptr<const Plan> two_nodes() {
  TestPlan t("two nodes", 1, 1);
  const Type row = f32({4});
  Builder first("first", t.mesh()), second("second", t.mesh());
  first.result("y", exp(first.parameter("x", row)));
  second.result(
      "z", second.parameter("x", row) + second.parameter("y", row) + second.parameter("k", row));
  const uint32_t x = t.input("x", row), k = t.input("k", row);
  const uint32_t y = t.value("y", PlanStorage::kTemporary, row), z = t.output("z", row);
  t.call("first", t.function(first.build()), {x}, {y});
  t.call("second", t.function(second.build()), {x, y, k}, {z});
  t.plan().dispatch = Dispatch::kSequential;
  return t.share();
}

TEST_P(CudaHostTest, InlineArgumentsOfASequentialProgramAreThereForEachNodeAndWrittenOnce) {
  EmulatedHosts t(GetParam(), 1, 1);
  t->install(kPlan, two_nodes());
  const auto inline_row = [](float value) {
    std::vector<std::byte> bytes(4 * sizeof value);
    for (size_t i = 0; i < 4; ++i) std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    return bytes;
  };
  Host& host = *t->hosts[0];
  host.prepare({0,
                {.plan = kPlan,
                 .run = RunId(1),
                 .arguments = {{0, {}, inline_row(0.0f)}, {1, {}, inline_row(5.0f)}},
                 .outputs = {ArrayId(1001)}}});
  for (uint32_t p = 0; p < 2; ++p) {
    host.grant({{{.run = RunId(1), .slice = 0, .first = p, .count = 1, .ticket = Ticket(1 + p)}}});
    while (p == 0 && t.machine->ran(" exp") == 0) t.reactor().run_ready();
  }
  const Done done = t->wait(RunId(1));
  ASSERT_FALSE(done.error) << done.error->what();
  EXPECT_THAT(t->get<float>(ArrayId(1001), 4), Each(6.0f));
  EXPECT_EQ(t.reports(), "");
}

INSTANTIATE_TEST_SUITE_P(Emulated, CardHosts, testing::ValuesIn(emulated::card_makers(1, kSeeds)),
                         card_name);
INSTANTIATE_TEST_SUITE_P(Seeds, CudaHostTest, testing::Range(uint64_t{1}, kSeeds + 1),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
