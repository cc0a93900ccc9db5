// GPT-2's 124M shape and its variant of eight experts take the same steps on a card and on the CPU.
// Sequences are short, so that a CPU takes seconds.
#include <gtest/gtest.h>

#include <fstream>

#include "programs/models/gpt2.h"
#include "runtime/os/temp_dir.h"
#include "tests/cuda/loss_checks.h"
#include "tests/cuda_module/real_card.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

struct Gpt2Case {
  std::string name;
  int64_t experts = 0;
  DType compute = DType::kF32;
  // Tolerance of a loss. In bf16 the card rounds sums in another order, and some tokens go to other
  // experts.
  float tolerance = 0;
};
void PrintTo(const Gpt2Case& test, std::ostream* out) { *out << test.name; }

class Gpt2OnACard : public testing::TestWithParam<Gpt2Case> {};

TEST_P(Gpt2OnACard, HasTheLossesOfTheCpu) {
  const CardMaker card = real_card(0);
  if (const std::string why = card.why_missing(); !why.empty()) GTEST_SKIP() << why;
  const TempDir folder;
  programs::LanguageModelConfig config;
  config.batch = 2;
  config.text = (folder.path() / "text.txt").string();
  std::ofstream(config.text) << programs::readable_text();
  config.model = programs::gpt2_124m();
  if (GetParam().experts > 0)
    config.model = programs::with_experts(config.model, GetParam().experts, 1);
  config.model.seq = 128;
  config.model.compute = GetParam().compute;
  expect_the_losses_of_the_cpu(card.make(), config,
                               {.threads = 0,
                                .memory_bytes = int64_t{16} << 30,
                                .steps = 5,
                                .lr = 3e-4f,
                                .tolerance = GetParam().tolerance});
}

INSTANTIATE_TEST_SUITE_P(Real, Gpt2OnACard,
                         testing::Values(Gpt2Case{"dense_f32", 0, DType::kF32, 5e-4f},
                                         Gpt2Case{"dense_bf16", 0, DType::kBF16, 5e-3f},
                                         Gpt2Case{"experts_f32", 8, DType::kF32, 1e-3f},
                                         Gpt2Case{"experts_bf16", 8, DType::kBF16, 1e-2f}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
