// A training whose program computes its learning rate is one that is given the rate with each step,
// bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "programs/optim/schedule.h"
#include "programs/train/train.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr CosineSchedule kRates{.peak = 1e-2, .warmup = 3, .steps = 9, .final_share = 0.05};

// The rate as a host computes it in f64.
float rate_on_host(int64_t step) {
  if (step < kRates.warmup)
    return static_cast<float>(kRates.peak * static_cast<double>(step) /
                              static_cast<double>(kRates.warmup));
  const double done =
      static_cast<double>(step - kRates.warmup) / static_cast<double>(kRates.steps - kRates.warmup);
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return static_cast<float>(kRates.peak * (kRates.final_share + (1.0 - kRates.final_share) * wave));
}

class LearningRateTest : public FolderTest {
 protected:
  LanguageModelConfig config(bool computes_rate) const {
    LanguageModelConfig config = tiny_experts(write("text.txt", readable_text()));
    if (computes_rate)
      config.optimizer.rate = [](Value step) { return warmup_cosine(step, kRates); };
    return config;
  }
};

TEST_F(LearningRateTest, IsThatOfAHostBitForBitWhereTheProgramComputesIt) {
  Trainer given(config(false)), computing(config(true));
  for (int64_t step = 1; step <= 10; ++step) {
    const float loss = given.enqueue(rate_on_host(step))["loss"].item<float>();
    const gangway::Run run = computing.step.run({{"step", static_cast<float>(step)}});
    EXPECT_EQ(run["loss"].item<float>(), loss) << step;
  }
  EXPECT_EQ(states_of(computing.slice), states_of(given.slice));
}

TEST_F(LearningRateTest, LeavesAStepBelowOneUncommitted) {
  const Trainer trainer(config(true));
  const States before = states_of(trainer.slice);
  const Error error = error_of([&] { trainer.step.run({{"step", 0.0f}}).wait(); });
  EXPECT_THAT(error.what(), HasSubstr("step, which must be at least 1"));
  EXPECT_EQ(states_of(trainer.slice), before);
}

TEST_F(LearningRateTest, NeedsNoInputOfGangwayTrainButTheStep) {
  TrainOptions options;
  options.text = write("text.txt", readable_text()).string();
  options.out = folder_ / "out";
  options.config = tiny_model(options.text);
  options.steps = 1;
  options.heldout_every = 0;
  options.sample_bytes = 0;
  options.in_process = true;
  train(options);
  const Program program = Program::load((folder_ / "out" / "train_step.gwp").string());
  std::vector<std::string> inputs;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kInput) inputs.push_back(node.name);
  }
  EXPECT_THAT(inputs, ElementsAre("step"));
}

}  // namespace
}  // namespace gangway::programs
