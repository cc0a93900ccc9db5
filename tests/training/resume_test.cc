// Training that is stopped and resumed repeats training that was not, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "programs/train/checkpoint.h"
#include "programs/train/train.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ResumeTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    text_ = FolderTest::write("text.txt", readable_text());
  }

  // Options with which `train` does everything that it can, at a small size.
  TrainOptions options(const std::string& out) const {
    TrainOptions options;
    options.text = text_.string();
    options.out = folder_ / out;
    options.config = tiny_experts(text_);
    options.schedule = {.peak = 1e-2, .warmup = 3};
    options.steps = 8;
    options.heldout_every = 0;
    options.checkpoint_every = 4;
    options.sample_bytes = 0;
    options.in_process = true;
    return options;
  }

  std::filesystem::path text_;
};

TEST_F(ResumeTest, ANewClusterGoesOnFromACheckpointBitForBit) {
  const LanguageModelConfig config = tiny_experts(text_);
  std::vector<float> expected;
  States expected_states;
  {
    Trainer trainer(config);
    expected = trainer.train(9);
    expected_states = states_of(trainer.slice);
  }
  std::vector<float> losses;
  {
    Trainer trainer(config);
    losses = trainer.train(4);
    save_checkpoint(trainer.slice, folder_ / "checkpoints",
                    {.step = 4, .position = trainer.step.position(), .seed = config.seed});
    trainer.train(2);  // These steps are lost, since they were not saved.
    trainer.client.close();
  }
  Trainer trainer(config);
  const TrainingPosition at = load_checkpoint(trainer.slice, folder_ / "checkpoints");
  EXPECT_EQ(at.step, 4);
  EXPECT_EQ(at.position, 4u);
  EXPECT_EQ(at.seed, config.seed);
  trainer.steps_done = at.step;
  trainer.step.set_position(at.position);
  for (float loss : trainer.train(5)) losses.push_back(loss);
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(states_of(trainer.slice), expected_states);
}

TEST_F(ResumeTest, ACheckpointMadeWhileStepsAreInFlightIsTheOneOfItsStep) {
  const LanguageModelConfig config = tiny_model(text_);
  Trainer trainer(config);
  std::vector<gangway::Run> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(trainer.enqueue());
  save_checkpoint(trainer.slice, folder_ / "checkpoints",
                  {.step = 3, .position = trainer.step.position(), .seed = config.seed});
  const std::vector<float> expected = trainer.train(3);

  Trainer again(config);
  const TrainingPosition at = load_checkpoint(again.slice, folder_ / "checkpoints");
  again.steps_done = at.step;
  again.step.set_position(at.position);
  EXPECT_EQ(again.train(3), expected);
}

TEST_F(ResumeTest, TheTrainingCommandResumesToTheSameCheckpoint) {
  const TrainReport whole = train(options("whole"));
  std::filesystem::create_directories(folder_ / "resumed/checkpoints");
  std::filesystem::copy(folder_ / "whole/checkpoints/step-00000004",
                        folder_ / "resumed/checkpoints/step-00000004");
  std::filesystem::create_directory_symlink("step-00000004",
                                            folder_ / "resumed/checkpoints/latest");
  TrainOptions rest = options("resumed");
  rest.resume = true;
  const TrainReport resumed = train(rest);
  EXPECT_EQ(resumed.steps, 8);
  EXPECT_EQ(resumed.heldout_loss, whole.heldout_loss);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(read(std::filesystem::path(whole.checkpoint) / file) ==
                read(std::filesystem::path(resumed.checkpoint) / file))
        << file;
  }
}

TEST_F(ResumeTest, GoingOnWithATrainingThatHasEndedSaysThatNothingIsLeft) {
  const TrainReport whole = train(options("out"));
  const auto when = std::filesystem::last_write_time(whole.checkpoint);
  TrainOptions again = options("out");
  again.resume = true;
  testing::internal::CaptureStderr();
  const TrainReport ended = train(again);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("nothing is left to train: the checkpoint has 8 steps, and --steps is 8"));
  EXPECT_EQ(ended.trained, 0);
  EXPECT_TRUE(std::isnan(ended.train_loss));
  EXPECT_TRUE(std::isnan(ended.tokens_per_s));
  EXPECT_EQ(ended.heldout_loss, whole.heldout_loss);
  EXPECT_EQ(ended.checkpoint, whole.checkpoint);
  EXPECT_EQ(std::filesystem::last_write_time(whole.checkpoint), when);
}

TEST_F(ResumeTest, GoingOnWithOtherSettingsSaysWhichStepsHadWhich) {
  train(options("out"));
  TrainOptions other = options("out");
  other.resume = true;
  other.steps = 9;
  other.schedule.peak = 5e-3;
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(other).trained, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("with --lr 0.005: the steps so far were trained with --lr 0.01"),
                    HasSubstr("with --steps 9: the steps so far were trained with --steps 8"),
                    Not(HasSubstr("--dtype"))));
}

TEST_F(ResumeTest, GoingOnInAnotherTypeOrWithOtherMicrobatchesIsReported) {
  TrainOptions other = options("out");
  other.config = tiny_model(text_);
  train(other);
  other.resume = true;
  other.steps = 9;
  other.config.model.compute = DType::kBF16;
  other.config.accumulate = 2;
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(other).trained, 1);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("with --dtype bf16: the steps so far were trained with --dtype f32"),
            HasSubstr("with --accumulate 2: the steps so far were trained with --accumulate 1"),
            Not(HasSubstr("with --lr"))));
}

TEST_F(ResumeTest, AStoppedAndResumedTrainingHasTheLossesOfOneThatNeverStopped) {
  using Losses = std::map<int64_t, float>;
  const auto losses_of = [](TrainOptions options, Losses& losses, int64_t stop_at = 1000) {
    bool is_asked = false;
    options.on_step = [&](const TrainedStep& done) {
      EXPECT_TRUE(losses.emplace(done.step, done.loss).second) << done.step;
      if (done.step >= stop_at) is_asked = true;
    };
    options.is_asked_to_stop = [&] { return is_asked; };
    return train(options);
  };
  const auto steps = [this](const std::string& out) {
    TrainOptions all = options(out);
    all.steps = 20;
    all.checkpoint_every = 0;
    return all;
  };
  Losses whole, parts;
  const TrainReport end = losses_of(steps("whole"), whole);
  TrainReport stopped = losses_of(steps("parts"), parts, 3);
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_GE(stopped.steps, 3);
  EXPECT_LE(stopped.steps, 10) << "those under way, and no more";
  EXPECT_EQ(static_cast<int64_t>(parts.size()), stopped.steps);
  TrainOptions rest = steps("parts");
  rest.resume = true;
  stopped = losses_of(rest, parts, stopped.steps + 1);
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_LT(stopped.steps, 20);
  stopped = losses_of(rest, parts);
  EXPECT_FALSE(stopped.is_stopped);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(stopped.heldout_loss, end.heldout_loss);
}

TEST_F(ResumeTest, ATrainingStoppedBeforeItsFirstStepSavesNothing) {
  TrainOptions none = options("none");
  none.is_asked_to_stop = [] { return true; };
  const Error error = error_of([&] { train(none); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("before its first step"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none/checkpoints"));
}

TEST_F(ResumeTest, ATrainingStoppedDuringItsLastEvaluationIsEvaluatedLater) {
  TrainOptions all = options("all");
  bool is_asked = false;
  all.on_step = [&](const TrainedStep& done) { is_asked = done.step == all.steps; };
  all.is_asked_to_stop = [&] { return is_asked; };
  const TrainReport stopped = train(all);
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_EQ(stopped.steps, all.steps);
  all.is_asked_to_stop = nullptr;
  all.resume = true;
  const TrainReport measured = train(all);
  EXPECT_FALSE(measured.is_stopped);
  EXPECT_GT(measured.heldout_loss, 0);
}

TEST_F(ResumeTest, AnotherSeedIsRefused) {
  train(options("out"));
  TrainOptions other = options("out");
  other.resume = true;
  other.config.seed = 2;
  const Error error = error_of([&] { train(other); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("seed 1, not 2"));
}

TEST_F(ResumeTest, AnotherTextIsRefused) {
  train(options("out"));
  TrainOptions other = options("out");
  other.resume = true;
  other.text = FolderTest::write("other.txt", readable_text() + "and more").string();
  const Error error = error_of([&] { train(other); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("made on another text"));
}

TEST_F(ResumeTest, AFolderWithoutACheckpointIsNamed) {
  TrainOptions none = options("none");
  none.resume = true;
  const Error error = error_of([&] { train(none); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("none/checkpoints"));
}

TEST_F(ResumeTest, ADamagedCheckpointIsPassedOverForTheOneBeforeIt) {
  const LanguageModelConfig config = tiny_model(text_);
  std::filesystem::path newest;
  {
    Trainer trainer(config);
    for (const int64_t step : {1, 2}) {
      newest = save_checkpoint(trainer.slice, folder_ / "checkpoints",
                               {.step = step, .seed = config.seed});
      trainer.train(1);
    }
    trainer.client.close();
  }
  {
    std::fstream file(newest / "optimizer.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const auto last = static_cast<char>(file.peek() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  Trainer trainer(config);
  std::string told;
  const LoadOptions options{.on_warning = [&](const std::string& line) { told += line; }};
  EXPECT_EQ(load_checkpoint(trainer.slice, folder_ / "checkpoints", options).step, 1);
  EXPECT_THAT(told, HasSubstr((newest / "optimizer.safetensors").string() +
                              ": the file is damaged: expected the BLAKE2b hash"));
  const Error error = error_of([&] { load_checkpoint(trainer.slice, newest); });
  EXPECT_THAT(error.what(), HasSubstr("the file is damaged"));
}

TEST_F(ResumeTest, ACheckpointOfAnotherModelNamesTheTensor) {
  {
    Trainer trainer(tiny_model(text_));
    save_checkpoint(trainer.slice, folder_ / "checkpoints", {.seed = 1});
  }
  LanguageModelConfig wider = tiny_model(text_);
  wider.model.hidden = 64;
  Trainer trainer(wider);
  const Error error = error_of([&] { load_checkpoint(trainer.slice, folder_ / "checkpoints"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("layers.0.ffn.down"));
}

TEST_F(ResumeTest, NothingIsLoadedWhereTheOptimizersFileIsMissingOrDoesNotFit) {
  const LanguageModelConfig config = tiny_model(text_);
  LanguageModelConfig wider = config;
  wider.model.hidden = 64;
  for (const auto& [name, of] : {std::pair("fits", config), std::pair("wider", wider)}) {
    Trainer trainer(of);
    trainer.train(1);
    save_checkpoint(trainer.slice, folder_ / name, {.step = 1, .seed = 1});
  }
  Trainer trainer(config);
  const States before = states_of(trainer.slice);
  const std::filesystem::path moments = folder_ / "fits/step-00000001/optimizer.safetensors";
  const auto why = [&] {
    const Error error = error_of([&] { load_checkpoint(trainer.slice, folder_ / "fits"); });
    EXPECT_TRUE(states_of(trainer.slice) == before);
    return std::string(error.what());
  };
  std::filesystem::remove(moments);
  EXPECT_THAT(why(), HasSubstr("optimizer.safetensors"));
  std::filesystem::copy(folder_ / "wider/step-00000001/optimizer.safetensors", moments);
  std::filesystem::remove(moments.parent_path() / "b2sums.txt");  // It would tell the two apart.
  EXPECT_THAT(why(), HasSubstr("tensor \"adamw.m.params.layers.0.ffn."));
}

}  // namespace
}  // namespace gangway::programs
