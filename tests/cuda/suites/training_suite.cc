#include <filesystem>
#include <fstream>

#include "runtime/os/temp_dir.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/loss_checks.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

using programs::LanguageModelConfig;

std::filesystem::path text_in(const TempDir& folder) {
  const std::filesystem::path path = folder.path() / "text.txt";
  std::ofstream(path) << programs::readable_text();
  return path;
}

// Small enough for a card that is emulated.
LanguageModelConfig smaller(LanguageModelConfig config, DType compute) {
  config.batch = 4;
  config.model.seq = 8;
  config.model.dim = 8;
  config.model.hidden = 16;
  config.model.layers = 1;
  config.model.compute = compute;
  return config;
}

TEST_P(CardTraining, ADenseModelHasTheLossesOfTheCpu) {
  const TempDir folder;
  const LanguageModelConfig config = programs::tiny_model(text_in(folder));
  expect_the_losses_of_the_cpu(GetParam().make(), smaller(config, DType::kF32), {.devices = 2});
}

TEST_P(CardTraining, AModelOfExpertsHasTheLossesOfTheCpu) {
  const TempDir folder;
  const LanguageModelConfig config = programs::tiny_experts(text_in(folder));
  expect_the_losses_of_the_cpu(GetParam().make(), smaller(config, DType::kF32), {.devices = 2});
}

TEST_P(CardTraining, InBf16AModelOfExpertsHasTheLossesOfTheCpu) {
  const TempDir folder;
  const LanguageModelConfig config = programs::tiny_experts(text_in(folder));
  expect_the_losses_of_the_cpu(GetParam().make(), smaller(config, DType::kBF16),
                               {.tolerance = 1e-2f});
}

}  // namespace
}  // namespace gangway
