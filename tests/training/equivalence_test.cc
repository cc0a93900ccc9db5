// Several ways to compute the same training give the same losses, bit for bit or within a stated
// noise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

constexpr int64_t kSteps = 10;

// Sums in another order change a loss by some units of 2^-24: 8e-8 of it was measured. Each update
// adds to that, since Adam divides differences of gradients by the gradients' size: 2e-7 in all was
// measured.
constexpr double kFirstNoise = 5e-7;
constexpr double kLastNoise = 5e-6;

void expect_equal_within_noise(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double noise = i == 0 ? kFirstNoise : kLastNoise;
    EXPECT_NEAR(a[i], b[i], noise * std::abs(a[i])) << "step " << i + 1;
  }
}

class EquivalenceTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    text_ = FolderTest::write("text.txt", readable_text());
  }

  static std::vector<float> losses(const LanguageModelConfig& config,
                                   const std::string& cluster = "local:2x2",
                                   int64_t steps = kSteps) {
    return Trainer(config, cluster).train(steps);
  }

  std::filesystem::path text_;
};

TEST_F(EquivalenceTest, TwoRunsOfOneSeedAreBitEqual) {
  const LanguageModelConfig config = tiny_experts(text_);
  Trainer one(config), two(config);
  EXPECT_EQ(one.train(kSteps), two.train(kSteps));
  EXPECT_EQ(states_of(one.slice), states_of(two.slice));
}

TEST_F(EquivalenceTest, AnotherSeedGivesOtherLosses) {
  LanguageModelConfig config = tiny_model(text_);
  const std::vector<float> one = losses(config, "local:2x2", 2);
  config.seed = 2;
  EXPECT_NE(one, losses(config, "local:2x2", 2));
}

TEST_F(EquivalenceTest, OneDeviceAndFourGiveTheSameLossesOfADenseModel) {
  const LanguageModelConfig config = tiny_model(text_);
  expect_equal_within_noise(losses(config, "local:1x1"), losses(config));
}

TEST_F(EquivalenceTest, OneDeviceAndFourGiveTheSameLossesOfExperts) {
  const LanguageModelConfig config = tiny_experts(text_);
  expect_equal_within_noise(losses(config, "local:1x1"), losses(config));
}

TEST_F(EquivalenceTest, OneDeviceAndFourDropTheSameTokensOfExpertsWithACapacity) {
  const LanguageModelConfig config = tiny_experts(text_, 1.0);
  expect_equal_within_noise(losses(config, "local:1x1"), losses(config));
}

TEST_F(EquivalenceTest, FourDevicesOnOneHostAndOnTwoAreBitEqual) {
  const LanguageModelConfig config = tiny_experts(text_);
  EXPECT_EQ(losses(config, "local:1x4"), losses(config));
}

TEST_F(EquivalenceTest, MicrobatchesAverageToTheWholeBatch) {
  LanguageModelConfig config = tiny_model(text_);
  const std::vector<float> whole = losses(config);
  config.accumulate = 2;
  expect_equal_within_noise(whole, losses(config));
}

TEST_F(EquivalenceTest, RematerialisationIsBitEqual) {
  for (LanguageModelConfig config : {tiny_model(text_), tiny_experts(text_)}) {
    const std::vector<float> kept = losses(config);
    config.model.remat = true;
    EXPECT_EQ(kept, losses(config));
  }
}

TEST_F(EquivalenceTest, Bf16WithF32MasterWeightsTrainsAndStaysNearF32) {
  LanguageModelConfig config = tiny_model(text_);
  const std::vector<float> f32 = losses(config, "local:2x2", 20);
  config.model.compute = DType::kBF16;
  const std::vector<float> bf16 = losses(config, "local:2x2", 20);
  EXPECT_LT(bf16.back(), bf16.front() - 1.0f);
  for (size_t i = 0; i < f32.size(); ++i) EXPECT_NEAR(bf16[i], f32[i], 0.01 * f32[i]) << i;
}

TEST_F(EquivalenceTest, EveryKindOfModelLearns) {
  for (const LanguageModelConfig& config :
       {tiny_model(text_), tiny_experts(text_), tiny_experts(text_, 1.25)}) {
    const std::vector<float> curve = losses(config, "local:2x2", 40);
    EXPECT_NEAR(curve.front(), std::log(256.0), 1.0) << "an even guess at first";
    EXPECT_LT(curve.back(), curve.front() - 2.0f);
    EXPECT_THAT(curve, testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
  }
}

TEST_F(EquivalenceTest, EvaluationsBetweenDoNotDisturbTraining) {
  const LanguageModelConfig config = tiny_experts(text_);
  const std::vector<float> undisturbed = losses(config);
  Trainer trainer(config);
  Executable heldout = trainer.slice.compile(evaluate(config, trainer.mesh));
  std::vector<float> between;
  std::vector<gangway::Run> evaluations;
  for (int64_t i = 0; i < kSteps; ++i) {
    gangway::Run step = trainer.enqueue();
    heldout.set_position(0);
    evaluations.push_back(heldout.run());
    between.push_back(step["loss"].item<float>());
  }
  EXPECT_EQ(between, undisturbed);
  EXPECT_LT(evaluations.back()["cross_entropy"].item<float>(),
            evaluations.front()["cross_entropy"].item<float>());
}

}  // namespace
}  // namespace gangway::programs
