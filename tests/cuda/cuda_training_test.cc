// A tiny language model trains on emulated cards, through client, controller and executor, as it
// does on a CPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/temp_dir.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/losses.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

using programs::LanguageModelConfig;

constexpr int64_t kSteps = 2;

class CudaTrainingTest : public testing::TestWithParam<uint64_t> {
 protected:
  void expect_the_losses_of_the_cpu(LanguageModelConfig config) {
    config.batch = 4;
    config.model.seq = 8;
    config.model.dim = 8;
    config.model.hidden = 16;
    config.model.layers = 1;
    const std::vector<float> want = losses_on({.devices = 1, .threads = 1}, config, kSteps);
    const auto machine = emulated::make_machine(GetParam());
    const std::vector<float> got =
        losses_on({.kind = DeviceKind::kCuda, .devices = 2, .gpus = {emulated::driver_of(machine)}},
                  config, kSteps);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]);
    EXPECT_EQ(machine->report_text(), "");
  }

  std::filesystem::path text() {
    const std::filesystem::path path = folder_.path() / "text.txt";
    std::ofstream(path) << programs::readable_text();
    return path;
  }

  TempDir folder_;
};

TEST_P(CudaTrainingTest, ADenseModelHasTheLossesOfTheCpu) {
  expect_the_losses_of_the_cpu(programs::tiny_model(text()));
}

TEST_P(CudaTrainingTest, AModelOfExpertsHasTheLossesOfTheCpu) {
  expect_the_losses_of_the_cpu(programs::tiny_experts(text()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaTrainingTest, testing::Range(uint64_t{1}, uint64_t{5}),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
