// `gangway train` under every strategy: it trains, evaluates, samples and resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/tensor_files.h"
#include "programs/train/train.h"
#include "tests/strategies/strategy_case.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TrainTest : public FolderTest {
 protected:
  TrainOptions options(const StrategyCase& of) {
    TrainOptions options;
    options.text = write("text.txt", readable_text(8'000)).string();
    options.out = folder_ / "out";
    options.cluster = of.cluster;
    options.mesh = mesh_of(of).axes;
    options.strategy = of.strategy;
    options.config = model_config(of.model);
    options.config.model.seq = 32;  // Room for the sample's prompt.
    options.steps = 4;
    options.heldout_every = 0;
    options.sample_bytes = 24;
    options.in_process = true;
    return options;
  }

  // Trains two of four steps, and resumes, perhaps as another case.
  TrainReport interrupted(const StrategyCase& of) { return interrupted(of, of); }
  TrainReport interrupted(const StrategyCase& of, const StrategyCase& resumed) {
    TrainOptions first = options(of);
    first.steps = 2;
    first.sample_bytes = 0;
    first.replace = true;  // The folder has the files of the case before.
    train(first);
    TrainOptions second = options(resumed);
    second.resume = true;
    return train(second);
  }
};

TEST_F(TrainTest, EveryStrategyTrainsEvaluatesResumesAndSamples) {
  const TrainReport plain =
      train(options({ModelKind::kCapacity, "data_parallel", "data=4", "local:2x2"}));
  for (const auto& [strategy, mesh] : std::vector<std::pair<std::string, std::string>>{
           {"zero1", "data=4"},
           {"zero2", "data=2 expert=2"},
           {"zero3", "data=2 expert=2"},
           {"expert_parallel", "data=2 expert=2"},
           {"zero3+expert_parallel", "expert=4"},
           {"megatron", "data=2 model=2"},
           {"megatron+sequence_parallel", "model=4"},
           {"vocab_parallel", "data=2 model=2"},
           {"context_parallel", "data=2 context=2"},
           {"zero3+megatron+sequence_parallel+vocab_parallel", "data=2 model=2"}}) {
    const StrategyCase of{ModelKind::kCapacity, strategy, mesh, "local:2x2"};
    SCOPED_TRACE(to_string(of));
    const TrainReport report = interrupted(of);
    EXPECT_EQ(report.steps, 4);
    EXPECT_NEAR(report.heldout_loss, plain.heldout_loss, 1e-5 * plain.heldout_loss);
    EXPECT_EQ(report.sample.size(), 24u);
    EXPECT_THAT(report.sample, testing::StartsWith("In the beginning "));
  }
}

TEST_F(TrainTest, DroplessExpertsThatLieOverTheModelAxisTrainEvaluateResumeAndSample) {
  const TrainReport plain =
      train(options({ModelKind::kDropless, "data_parallel", "data=4", "local:2x2"}));
  const TrainReport report = interrupted(
      {ModelKind::kDropless, "megatron+sequence_parallel+expert_parallel", "model=4", "local:2x2"});
  EXPECT_NEAR(report.heldout_loss, plain.heldout_loss, 1e-5 * plain.heldout_loss);
  EXPECT_EQ(report.sample.size(), 24u);
}

TEST_F(TrainTest, ResumesUnderAnotherStrategyOnAnotherMesh) {
  const StrategyCase of{ModelKind::kCapacity, "zero3+expert_parallel", "data=2 expert=2",
                        "local:2x2"};
  const TrainReport plain = train(options(of));
  for (const StrategyCase& resumed :
       {StrategyCase{ModelKind::kCapacity, "megatron+sequence_parallel", "model=4", "local:1x4"},
        StrategyCase{ModelKind::kCapacity, "zero1", "data=8", "local:2x4"},
        StrategyCase{ModelKind::kCapacity, "data_parallel", "data=1", "local:1x1"}}) {
    SCOPED_TRACE(to_string(resumed));
    const TrainReport report = interrupted(of, resumed);
    EXPECT_EQ(report.steps, 4);
    EXPECT_NEAR(report.heldout_loss, plain.heldout_loss, 1e-5 * plain.heldout_loss);
  }
}

// The config gives each layer's number of experts: none, then eight. Files number all layers
// together.
TEST_F(TrainTest, APyramidTrainsAndResumes) {
  TrainOptions whole =
      options({ModelKind::kCapacity, "zero3+expert_parallel", "data=2 expert=2", "local:2x2"});
  whole.config.model.experts = {0, 8};
  whole.config.model.moe.experts = 0;
  TrainOptions first = whole;
  first.steps = 2;
  train(first);
  TrainOptions second = whole;
  second.resume = true;
  const TrainReport resumed = train(second);
  const TensorFiles files = TensorFiles::open(resumed.checkpoint);
  EXPECT_EQ(files.at("layers.0.ffn.up").spec->shape, (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(files.at("layers.1.moe.up").spec->shape, (std::vector<int64_t>{8, 16, 32}));
  whole.out = folder_ / "whole";
  EXPECT_EQ(resumed.heldout_loss, train(whole).heldout_loss);
}

TEST_F(TrainTest, OptionsThatDoNotFitAreRefusedWithOnesThatWould) {
  const auto error = [&](TrainOptions changed) {
    changed.cluster = "local:2xnone";  // No cluster starts from this, so the error comes before.
    changed.devices = 4;
    return std::string(error_of([&] { train(changed); }).what());
  };
  const TrainOptions good = options({ModelKind::kDense, "zero3", "data=4", "local:2x2"});
  TrainOptions changed = good;
  changed.mesh = {{"data", 2}, {"model", 4}};
  EXPECT_THAT(error(changed), AllOf(HasSubstr("has 8 devices, and there are 4"),
                                    HasSubstr("sizes whose product is 4")));
  changed.mesh = {{"data", 2}, {"model", 2}};
  EXPECT_THAT(error(changed), HasSubstr("expected megatron or vocab_parallel too"));
  changed = good;
  changed.strategy = "fsdp";
  EXPECT_THAT(error(changed), AllOf(HasSubstr("no \"fsdp\""), HasSubstr("zero3")));
  changed = good;
  changed.config.batch = 18;
  EXPECT_THAT(error(changed), HasSubstr("expected a multiple of 4"));
}

}  // namespace
}  // namespace gangway::programs
