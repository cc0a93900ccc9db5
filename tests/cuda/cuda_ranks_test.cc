// Several ranks of a program on each emulated card.
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
#include "tests/support/seed.h"
#include "tests/support/small_programs.h"
#include "tests/training/trainer.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

class CudaRanksTest : public ::testing::Test {
 protected:
  // A host with a device for each card.
  static HostOptions host(const std::shared_ptr<emulated::EmulatedMachine>& machine, int cards) {
    HostOptions host{.kind = DeviceKind::kCuda, .devices = cards};
    for (int card = 0; card < cards; ++card)
      host.gpus.push_back(emulated::driver_of(machine, static_cast<uint32_t>(card)));
    return host;
  }
};

// The losses of the first three steps of four ranks.
std::vector<float> losses(const HostOptions& host, const programs::LanguageModelConfig& config) {
  std::vector<float> losses;
  with_cluster(host, [&](const Client& client) {
    const Slice slice =
        client.allocate({.devices = 4, .ranks_per_device = 4 / int64_t{host.devices}});
    const Executable step = slice.compile(programs::train_step(config, slice.mesh({{"data", 4}})));
    std::vector<gangway::Run> runs;
    for (int i = 1; i <= 3; ++i)
      runs.push_back(step.run({{"lr", 0.01f}, {"step", static_cast<float>(i)}}));
    for (const gangway::Run& run : runs) losses.push_back(run["loss"].item<float>());
  });
  return losses;
}

TEST_F(CudaRanksTest, FourRanksOnOneCardAndOnTwoTrainAsOnFourCpus) {
  const TempDir folder;
  const std::filesystem::path text = folder.path() / "text.txt";
  std::ofstream(text) << programs::readable_text();
  programs::LanguageModelConfig config = programs::tiny_experts(text);
  config.batch = 4;
  config.model.seq = 8;
  config.model.dim = 8;
  config.model.hidden = 16;
  config.model.layers = 1;
  const std::vector<float> want = losses({.devices = 4, .threads = 1}, config);
  for (const int cards : {1, 2}) {
    SCOPED_TRACE(cat(cards, " cards"));
    const auto machine = emulated::make_machine(tests::test_seed(), static_cast<uint32_t>(cards));
    const std::vector<float> got = losses(host(machine, cards), config);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4f * want[i]);
    EXPECT_EQ(machine->report_text(), "");
    EXPECT_EQ(machine->driver().memory_in_use(), 0);
  }
}

TEST_F(CudaRanksTest, TransfersGoBetweenRanksOfOneCardAndOfTwo) {
  const auto machine = emulated::make_machine(tests::test_seed(), 2);
  with_cluster(host(machine, 2), [&](const Client& client) {
    const Program program = there_and_back(Mesh{{{"data", 4}}});
    for (const int64_t ranks : {2, 4}) {
      const Slice one = client.allocate({.devices = 4, .ranks_per_device = 2});
      const Slice two = client.allocate({.devices = 4, .ranks_per_device = ranks});
      const Executable there = one.compile(program, {two});
      const HostTensor ones = HostTensor::of<float>({16, 8}, std::vector<float>(128, 1.0f));
      std::vector<gangway::Run> runs;
      for (int i = 0; i < 3; ++i) runs.push_back(there.run({{"x", one.from_host(ones)}}));
      for (const gangway::Run& run : runs) {
        const HostTensor y = run["y"].to_host();
        EXPECT_THAT(y.as<float>(), ::testing::Each(4.0f));
      }
    }
  });
  EXPECT_EQ(machine->report_text(), "");
}

TEST_F(CudaRanksTest, RanksOfACardThatReduceApartAreRefusedWithTheLine) {
  const auto machine = emulated::make_machine(tests::test_seed(), 2);
  with_cluster(host(machine, 2), [&](const Client& client) {
    const Slice slice = client.allocate({.devices = 4, .ranks_per_device = 2});
    ProgramBuilder b("apart", slice.mesh({{"data", 2}, {"model", 2}}));
    Value x = b.input("x", f32({8, 4}), {{"data", shard(0)}});
    b.output("sum", sum(x));
    const Error error = error_of([&, apart = b.build()] { slice.compile(apart); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.message(), HasSubstr("some of the 2 ranks of a card are in the group"));
    EXPECT_THAT(error.where().at, HasSubstr("cuda_ranks_test.cc:"));
  });
}

}  // namespace
}  // namespace gangway
