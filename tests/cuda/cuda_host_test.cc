// Hosts whose devices are emulated cards: training steps, transfers, and what goes wrong on a card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda/emulated_gpu.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr PlanId kPlan{1};
constexpr uint64_t kSeeds = 8;

// Hosts of `devices` devices each; all on one card, or each host on a card of its own.
struct CudaHosts {
  CudaHosts(uint64_t seed, uint32_t count, uint32_t devices)
      : machine(emulated::make_machine(seed, count)), hosts(make(count, devices)) {}

  std::unique_ptr<TestHosts> make(uint32_t count, uint32_t devices) {
    std::vector<std::vector<std::shared_ptr<cuda::Driver>>> gpus;
    for (uint32_t h = 0; h < count; ++h) gpus.push_back({emulated::driver_of(machine, h)});
    return std::make_unique<TestHosts>(*reactor, count, devices, DeviceKind::kCuda, nullptr,
                                       int64_t{16} << 20, gpus);
  }
  TestHosts* operator->() const { return hosts.get(); }
  // What the machine saw until the hosts were gone.
  std::string reports() {
    hosts = nullptr;
    reactor->run_ready();
    return machine->report_text();
  }

  std::unique_ptr<Reactor> reactor = Reactor::make_real();
  std::shared_ptr<emulated::EmulatedMachine> machine;
  std::unique_ptr<TestHosts> hosts;
};

void expect_training(CudaHosts& t, uint32_t hosts, uint32_t devices) {
  t->install(kPlan, training_step(hosts, devices));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 3; ++run) t->start(step_request(kPlan, run, 0.25f));
  for (uint64_t run = 1; run <= 3; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
  }
  // w: 1 -> 2 -> 2.5 -> 2.75; loss = 2 * (w - 3)^2
  EXPECT_FLOAT_EQ(t->item<float>(RunId(1), 0), 8.0f);
  EXPECT_FLOAT_EQ(t->item<float>(RunId(3), 0), 0.5f);
  EXPECT_THAT(t->get_state<float>("w", 2), Each(2.75f));
  EXPECT_THAT(t->get<float>(ArrayId(1003), 1), Each(0.5f));
  EXPECT_EQ(t.reports(), "");
}

class CudaHostTest : public testing::TestWithParam<uint64_t> {};

TEST_P(CudaHostTest, TrainsOnOneDevice) {
  CudaHosts t(GetParam(), 1, 1);
  expect_training(t, 1, 1);
}

TEST_P(CudaHostTest, TrainsOnFourDevicesOfOneCard) {
  CudaHosts t(GetParam(), 1, 4);
  expect_training(t, 1, 4);
}

TEST(CudaHostsTest, TrainOnTwoDevicesOfOneCardOverTwoHundredSeeds) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    CudaHosts t(seed, 1, 2);
    ASSERT_NO_FATAL_FAILURE(expect_training(t, 1, 2));
  }
}

TEST_P(CudaHostTest, TrainsOnTwoHostsWithACardEach) {
  CudaHosts t(GetParam(), 2, 1);
  expect_training(t, 2, 1);
}

TEST_P(CudaHostTest, AChainThatAlternatesBetweenTwoHostsGoesOnRunAfterRun) {
  CudaHosts t(GetParam(), 2, 1);
  t->install(kPlan, TestPlan::alternating_chain(2, 1, 8));
  const auto request = [](uint64_t run) -> RunRequest {
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

TEST_P(CudaHostTest, AStepThatIsNotFiniteCommitsNothingAndNamesTheFirstOp) {
  CudaHosts t(GetParam(), 1, 2);
  t->install(kPlan, training_step(1, 2));
  std::vector<float> x(16, 3.0f);
  x[13] = 30.0f;  // exp(29 * 29) overflows.
  t->put<float>(ArrayId(100), kPlan, 0, x);
  t->start(step_request(kPlan, 1, 1.0f));
  const Done done = t->wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_THAT(done.error->what(), HasSubstr("exp of f32[4, 2]"));
  EXPECT_THAT(done.error->what(), HasSubstr("training_step.h"));
  EXPECT_THAT(t->get_state<float>("w", 2), Each(1.0f));
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, ALaunchThatFailsPoisonsItsRunAloneAndNamesTheOp) {
  CudaHosts t(GetParam(), 1, 2);
  t->install(kPlan, training_step(1, 2));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  t.machine->inject({cuda::StatusKind::kLaunch, " exp"});
  for (uint64_t run = 1; run <= 2; ++run) t->start(step_request(kPlan, run, 0.25f));
  const Done failed = t->wait(RunId(1)), next = t->wait(RunId(2));
  ASSERT_TRUE(failed.error);
  EXPECT_THAT(failed.error->what(), HasSubstr(" exp"));
  EXPECT_THAT(failed.error->what(), HasSubstr("training_step.h"));
  EXPECT_FALSE(next.error) << next.error->what();
  EXPECT_THAT(t->get_state<float>("w", 2), Each(2.0f));
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, AStickyErrorEndsItsDeviceAndEveryRunOnItAndNamesTheOp) {
  CudaHosts t(GetParam(), 1, 1);
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

TEST_P(CudaHostTest, PlannedBytesAreTheBytesAskedOfTheCard) {
  CudaHosts t(GetParam(), 1, 2);
  cuda::Driver& driver = t.machine->driver();
  const int64_t before = driver.memory_in_use();
  const std::vector<Installed> installed = t->install(kPlan, training_step(1, 2));
  const int64_t planned = installed[0].needs[0].total() + installed[0].needs[1].total();
  const int64_t asked = t->hosts[0]->bytes_in_use(0) + t->hosts[0]->bytes_in_use(1);
  EXPECT_EQ(planned, asked);
  EXPECT_LE(driver.memory_in_use() - before, asked);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaHostTest, AHostMayGoWhileItsRunsAreUnderWay) {
  CudaHosts t(GetParam(), 1, 2);
  t->install(kPlan, training_step(1, 2));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 4; ++run) t->start(step_request(kPlan, run, 1.0f));
  EXPECT_EQ(t.reports(), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaHostTest, testing::Range(uint64_t{1}, kSeeds + 1),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
