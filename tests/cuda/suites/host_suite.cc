#include <gmock/gmock.h>

#include "tests/cuda/card_suites.h"
#include "tests/cuda/cuda_hosts.h"
#include "tests/support/training_step.h"

namespace gangway {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST_P(CardHosts, TrainOnOneDevice) {
  CudaHosts t(GetParam().make(), 1);
  expect_training(t, 1, 1);
}

TEST_P(CardHosts, TrainOnFourDevicesOfOneCard) {
  CudaHosts t(GetParam().make(), 4);
  expect_training(t, 1, 4);
}

TEST_P(CardHosts, AStepThatIsNotFiniteCommitsNothingAndNamesTheFirstOp) {
  CudaHosts t(GetParam().make(), 2);
  t->install(kPlan, training_step(1, 2));
  std::vector<float> x(16, 3.0f);
  x[13] = 30.0f;  // exp(29 * 29) overflows.
  t->put<float>(ArrayId(100), kPlan, 0, x);
  t->start(step_request(kPlan, 1, 1.0f));
  const Done done = t->wait(RunId(1));
  ASSERT_TRUE(done.error);
  EXPECT_THAT(done.error->what(), HasSubstr("exp of f32[4, 2]"));
  EXPECT_THAT(done.error->what(), HasSubstr("training_step.h"));
  EXPECT_THAT(t->read_state<float>("w", 2), Each(1.0f));
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CardHosts, PlannedBytesAreTheBytesAskedOfTheCard) {
  const Card card = GetParam().make();
  CudaHosts t(card, 2);
  const int64_t before = card.driver->memory_in_use();
  const std::vector<Installed> installed = t->install(kPlan, training_step(1, 2));
  const int64_t planned = installed[0].needs[0].total() + installed[0].needs[1].total();
  const int64_t asked = t->hosts[0]->bytes_in_use(0) + t->hosts[0]->bytes_in_use(1);
  EXPECT_EQ(planned, asked);
  EXPECT_LE(card.driver->memory_in_use() - before, asked);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CardHosts, MayGoWhileTheirRunsAreUnderWay) {
  CudaHosts t(GetParam().make(), 2);
  t->install(kPlan, training_step(1, 2));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 4; ++run) t->start(step_request(kPlan, run, 1.0f));
  EXPECT_EQ(t.reports(), "");
}

}  // namespace
}  // namespace gangway
