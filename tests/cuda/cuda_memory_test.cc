// Tests that a program uses the card's memory that it has planned, and that a program is refused if
// it does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "runtime/os/temp_dir.h"
#include "tests/cuda/cuda_cluster.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/support/error_of.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

class CudaMemoryTest : public testing::TestWithParam<uint32_t> {
 protected:
  CudaMemoryTest() { std::ofstream(text_) << programs::readable_text(); }

  HostOptions host(int64_t memory_bytes) const {
    return {.kind = DeviceKind::kCuda,
            .devices = static_cast<int>(GetParam()),
            .memory_bytes = memory_bytes,
            .gpus = {emulated::driver_of(machine_)}};
  }
  programs::LanguageModelConfig config() const {
    programs::LanguageModelConfig config = programs::tiny_experts(text_);
    config.batch = 4;
    config.model.seq = 8;
    return config;
  }
  cuda::Driver& driver() const { return machine_->driver(); }
  void use(std::shared_ptr<emulated::EmulatedMachine> machine) { machine_ = std::move(machine); }
  static Error refusal(const Slice& slice, const Program& program) {
    return error_of([&] { slice.compile(program); });
  }

  const TempDir folder_;
  const std::filesystem::path text_ = folder_.path() / "text.txt";
  std::shared_ptr<emulated::EmulatedMachine> machine_ = emulated::make_machine(1);
};

TEST_P(CudaMemoryTest, ThePlannedPeakIsTheCardsWithinTwoPercent) {
  with_cluster(host(32 * kMiB), [&](const Client& client) {
    const Slice slice = client.allocate({.devices = GetParam()});
    const Mesh mesh = slice.mesh({{"data", GetParam()}});
    const Executable step = slice.compile(programs::train_step(config(), mesh));
    std::vector<gangway::Run> runs;
    for (int i = 1; i <= 4; ++i)
      runs.push_back(step.run({{"lr", 0.01f}, {"step", static_cast<float>(i)}}));
    for (gangway::Run& run : runs) run.wait();
    int64_t planned = 0;
    for (const MemoryReport::Device& device : step.memory().devices)
      planned += device.arena + device.state + device.slots;
    const auto peak = static_cast<double>(driver().memory_peak());
    EXPECT_NEAR(peak, static_cast<double>(planned), 0.02 * peak);
  });
  EXPECT_EQ(driver().memory_in_use(), 0);
  EXPECT_EQ(machine_->report_text(), "");
}

TEST_P(CudaMemoryTest, AProgramThatDoesNotFitIsRefusedBeforeItTouchesTheCard) {
  with_cluster(host(kMiB / 4), [&](const Client& client) {
    const Slice slice = client.allocate({.devices = GetParam()});
    const Mesh mesh = slice.mesh({{"data", GetParam()}});
    const Error error = refusal(slice, programs::train_step(config(), mesh));
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("which has 256.0 KiB"));
    EXPECT_THAT(error.what(), HasSubstr(" short even when nobody holds any"));
    EXPECT_THAT(error.what(), HasSubstr("host-0/device 0"));
  });
  EXPECT_EQ(driver().memory_peak(), 0);
  EXPECT_EQ(machine_->report_text(), "");
}

TEST_P(CudaMemoryTest, ACardWithLessThanItsDevicesWereGivenRefusesAndGivesBackWhatItGave) {
  use(std::make_shared<emulated::EmulatedMachine>(
      emulated::EmulatedOptions{.memory_bytes = kMiB / 4, .background = true}));
  with_cluster(host(32 * kMiB), [&](const Client& client) {
    const Slice slice = client.allocate({.devices = GetParam()});
    const Mesh mesh = slice.mesh({{"data", GetParam()}});
    const Error error = refusal(slice, programs::train_step(config(), mesh));
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.what(), HasSubstr("are free"));
    EXPECT_THAT(error.what(), HasSubstr("host-0/"));
    ProgramBuilder b("small", mesh);
    b.output("sum", sum(b.input("x", f32({2})), {0}));
    const HostTensor x = HostTensor::of<float>({2}, std::vector<float>{1, 2});
    const Executable small = slice.compile(b.build(), CompileOptions{.runs_in_flight_max = 8});
    EXPECT_EQ(small.run({{"x", x}})["sum"].item<float>(), 3);
  });
  EXPECT_EQ(driver().memory_in_use(), 0);
  EXPECT_EQ(machine_->report_text(), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaMemoryTest, testing::Values(1, 2),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
