#include <filesystem>
#include <fstream>

#include "runtime/temp_dir.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/cuda_cluster.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

using programs::LanguageModelConfig;

constexpr int64_t kSteps = 2;

std::filesystem::path text_in(const TempDir& folder) {
  const std::filesystem::path path = folder.path() / "text.txt";
  std::ofstream(path) << programs::readable_text();
  return path;
}

void expect_the_losses_of_the_cpu(const Card& card, LanguageModelConfig config) {
  config.batch = 4;
  config.model.seq = 8;
  config.model.dim = 8;
  config.model.hidden = 16;
  config.model.layers = 1;
  const std::vector<float> want = losses_on({.devices = 1, .threads = 1}, config, kSteps);
  const std::vector<float> got =
      losses_on({.kind = DeviceKind::kCuda, .devices = 2, .gpus = {card.driver}}, config, kSteps);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]);
  EXPECT_EQ(card.report(), "");
}

TEST_P(CardTraining, ADenseModelHasTheLossesOfTheCpu) {
  const TempDir folder;
  expect_the_losses_of_the_cpu(GetParam().make(), programs::tiny_model(text_in(folder)));
}

TEST_P(CardTraining, AModelOfExpertsHasTheLossesOfTheCpu) {
  const TempDir folder;
  expect_the_losses_of_the_cpu(GetParam().make(), programs::tiny_experts(text_in(folder)));
}

}  // namespace
}  // namespace gangway
