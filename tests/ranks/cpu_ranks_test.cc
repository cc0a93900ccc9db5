// Several ranks on each CPU device compute the results of as many devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "gangway.h"
#include "programs/train/checkpoint.h"
#include "programs/train/language_model.h"
#include "programs/train/train.h"
#include "tests/support/error_of.h"
#include "tests/support/small_programs.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using programs::LanguageModelConfig;
using testing::HasSubstr;

constexpr int64_t kRanks = 8;

// The places of eight ranks.
struct Places {
  const char* cluster;
  int64_t ranks_per_device;
};

class Training {
 public:
  Training(const LanguageModelConfig& config, const Places& places)
      : client_(connect(places.cluster, {.in_process = true, .memory_bytes = 64 << 20})),
        slice(client_.allocate({.devices = kRanks, .ranks_per_device = places.ranks_per_device})),
        step(slice.compile(programs::train_step(config, slice.mesh({{"data", kRanks}})))) {}

  std::vector<float> train(int steps) {
    std::vector<gangway::Run> runs;
    for (int i = 0; i < steps; ++i)
      runs.push_back(step.run({{"lr", 0.01f}, {"step", static_cast<float>(++done_)}}));
    std::vector<float> losses;
    for (const gangway::Run& run : runs) losses.push_back(run["loss"].item<float>());
    return losses;
  }
  std::map<std::string, std::vector<std::byte>> states() const {
    std::map<std::string, std::vector<std::byte>> states;
    for (const auto& [name, type] : slice.states()) states[name] = slice.read_state(name).bytes;
    return states;
  }
  void resume_at(int step_number) { done_ = step_number; }

 private:
  Client client_;
  int done_ = 0;

 public:
  Slice slice;
  Executable step;
};

class CpuRanksTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    while (text.size() < 20000) text += cat("line ", text.size(), " of the text. ");
    config_.text = write("text.txt", text).string();
    config_.batch = 8;
    config_.model = {.seq = 8, .dim = 16, .layers = 1, .heads = 2, .hidden = 32};
    config_.model.moe = {.experts = 4, .top_k = 2, .groups = 8};
  }

  LanguageModelConfig config_;
};

// Hosts have consecutive ranks, in numbers with which all sums use one tree (docs/collectives.md).
TEST_F(CpuRanksTest, EightRanksTrainBitForBitTheSameOnEightFourTwoAndOneDevices) {
  Training eight(config_, {"local:2x4", 1});
  const std::vector<float> losses = eight.train(4);
  const auto states = eight.states();
  for (const Places& places : {Places{"local:2x2", 2}, {"local:1x2", 4}, {"local:1x1", 8}}) {
    Training ranks(config_, places);
    EXPECT_EQ(ranks.train(4), losses) << places.cluster;
    EXPECT_EQ(ranks.states(), states) << places.cluster;
  }
}

TEST_F(CpuRanksTest, ACheckpointGoesOnWithOtherRanksOnADeviceBitForBit) {
  Training whole(config_, {"local:2x2", 2});
  const std::vector<float> expected = whole.train(4);
  Training before(config_, {"local:2x2", 2});
  before.train(2);
  programs::save_checkpoint(before.slice, folder_ / "checkpoints",
                            {.step = 2, .position = before.step.position(), .seed = config_.seed});
  for (const Places& places : {Places{"local:1x2", 4}, {"local:2x4", 1}}) {
    Training after(config_, places);
    const auto at = programs::load_checkpoint(after.slice, folder_ / "checkpoints");
    after.step.set_position(at.position);
    after.resume_at(2);
    EXPECT_EQ(after.train(2), (std::vector<float>{expected[2], expected[3]})) << places.cluster;
  }
}

TEST_F(CpuRanksTest, TrainTakesAllRanksOfALocalClusterAndRefusesANumberThatDoesNotDivide) {
  programs::TrainOptions options;
  options.text = config_.text;
  options.out = folder_ / "out";
  options.config = config_;
  options.cluster = "local:1x2";
  options.ranks_per_device = 4;
  options.steps = 2;
  options.heldout_every = 0;
  options.sample_bytes = 0;
  options.in_process = true;
  EXPECT_EQ(programs::train(options).steps, 2);
  options.devices = 8;
  options.ranks_per_device = 3;
  const Error error = error_of([&] { programs::train(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.message(),
              HasSubstr("8 devices can't be put on devices of the cluster with 3 ranks each"));
}

HostTensor rising(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows) * 8);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return HostTensor::of<float>({rows, 8}, values);
}

class RanksOfAClientTest : public testing::Test {
 protected:
  Slice ranks() { return client_.allocate({.devices = kRanks, .ranks_per_device = 2}); }
  Client client_ = connect("local:2x2", {.in_process = true, .memory_bytes = 16 << 20});
};

TEST_F(RanksOfAClientTest, ArraysAndSmallInputsReachTheirRanksAndComeBackWhole) {
  const Slice slice = ranks();
  const Executable step = slice.compile(accumulate(slice.mesh({{"data", kRanks}})));
  const HostTensor x = rising(16);
  std::vector<float> twice;
  for (float value : x.as<float>()) twice.push_back(2 * value);
  const Array array = slice.from_host(x);
  for (const Argument& argument : {Argument{"x", array}, Argument{"x", x}}) {
    const gangway::Run run = step.run({argument, {"scale", 1.0f}});
    const HostTensor back = run["twice"].to_host();
    EXPECT_EQ(std::vector<float>(back.as<float>().begin(), back.as<float>().end()), twice);
  }
  EXPECT_EQ(step.run({{"x", array}, {"scale", 0.0f}})["sum"].item<float>(), 2 * 8128);
}

TEST_F(RanksOfAClientTest, AnOutputOfOneProgramIsAnInputOfAnotherOnTheSameRanks) {
  const Slice slice = ranks();
  const Executable step = slice.compile(accumulate(slice.mesh({{"data", kRanks}})));
  Array x = slice.from_host(rising(16));
  for (int i = 0; i < 3; ++i) x = step.run({{"x", x}, {"scale", 1.0f}})["twice"];
  EXPECT_EQ(step.run({{"x", x}, {"scale", 0.0f}})["sum"].item<float>(), 7 * 8128);
}

TEST_F(RanksOfAClientTest, ProgramsWithOneTwoAndFourRanksOnADeviceRunSideBySide) {
  std::vector<Executable> programs;
  for (const int64_t each : {1, 2, 4}) {
    const Slice slice = client_.allocate({.devices = 4 * each, .ranks_per_device = each});
    programs.push_back(slice.compile(accumulate(slice.mesh({{"data", 4 * each}}))));
  }
  std::vector<gangway::Run> runs;
  for (int i = 0; i < 30; ++i)
    runs.push_back(programs[static_cast<size_t>(i % 3)].run({{"x", rising(16)}, {"scale", 1.0f}}));
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(runs[static_cast<size_t>(i)]["sum"].item<float>(),
              8128.0f * static_cast<float>(i / 3 + 1));
}

TEST_F(RanksOfAClientTest, TransfersGoBetweenSlicesWhoseDevicesRunDifferentlyManyRanks) {
  const Mesh mesh{{{"data", 4}}};
  for (const int64_t first : {1, 2, 4}) {
    for (const int64_t second : {1, 2, 4}) {
      const Slice one = client_.allocate({.devices = 4, .ranks_per_device = first});
      const Slice two = client_.allocate({.devices = 4, .ranks_per_device = second});
      const Executable program = one.compile(there_and_back(mesh), {two});
      std::vector<gangway::Run> runs;
      for (int i = 0; i < 4; ++i) runs.push_back(program.run({{"x", rising(16)}}));
      for (const gangway::Run& run : runs) {
        const HostTensor y = run["y"].to_host();
        for (size_t i = 0; i < 128; ++i)
          ASSERT_EQ(y.as<float>()[i], static_cast<float>(i) + 3) << first << " " << second;
      }
    }
  }
}

TEST_F(RanksOfAClientTest, ADeviceNeedsMemoryForEachOfItsRanks) {
  const auto planned = [&](int64_t each) {
    const Slice slice = client_.allocate({.devices = 4 * each, .ranks_per_device = each});
    ProgramBuilder b("large", Mesh{{{"data", 4 * each}}});
    Value w = b.state("w", zeros(f32({each, 1 << 18})));  // A mebibyte on each rank for each.
    b.update(w, w + 1.0);
    return slice.compile(b.build()).memory();
  };
  const MemoryReport one = planned(1);
  ASSERT_EQ(one.devices.size(), 4u);
  EXPECT_EQ(one.devices[0].state, 1 << 20);
  const MemoryReport two = planned(2);
  ASSERT_EQ(two.devices.size(), 4u) << "a line for each device";
  EXPECT_EQ(two.devices[0].state, 2 * 2 << 20);
  // The states take 16 MiB, and their initialiser needs more.
  const Error error = error_of([&] { planned(4); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("which has 16.0 MiB"));
}

TEST_F(RanksOfAClientTest, ANonFiniteStepIsFoundOnWhicheverRankItIs) {
  const Slice slice = ranks();
  ProgramBuilder b("guarded", slice.mesh({{"data", kRanks}}));
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value loss = mean(log(x));
  b.update(w, w + loss);
  b.output("loss", loss);
  b.require_finite("loss");
  const Executable step = slice.compile(b.build());
  std::vector<float> values(128, 1.0f);
  EXPECT_EQ(step.run({{"x", HostTensor::of<float>({16, 8}, values)}})["loss"].item<float>(), 0.0f);
  for (const size_t rank : {4, 5}) {  // Both are on the third device.
    std::vector<float> wrong = values;
    wrong[16 * rank + 13] = -1.0f;
    const gangway::Run run = step.run({{"x", HostTensor::of<float>({16, 8}, wrong)}});
    EXPECT_THAT(error_of([&] { run.wait(); }).what(), HasSubstr("log")) << rank;
  }
}

}  // namespace
}  // namespace gangway
