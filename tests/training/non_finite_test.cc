// If a result is not finite, the step does not commit, the error names the first op that computed
// it, and training goes on once the cause is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "programs/optim/adamw.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Error end_of(const gangway::Run& run) {
  return error_of([&] { run.wait(); });
}

// A step that adds a sum over rows to w, which goes through a log: it is finite only while the
// log's input is positive.
struct Planted {
  Program program;
  int line = 0;  // The line of the log.
};

Planted planted(const Mesh& mesh) {
  ProgramBuilder b("planted", mesh);
  Value w = b.state("w", filled(f32({4}), 1.0));
  Value x = b.input("x", f32({8, 4}), {{"data", shard(0)}});
  Value shifted = x * 2.0 + 1.0;
  Value y = log(shifted);
  const int line = __LINE__ - 1;
  Value next = w + sum(exp(y), {0});
  b.update(w, next);
  b.output("loss", sum(next));
  b.require_finite("loss");
  return {b.build(), line};
}

HostTensor rows_of(float value, int64_t poisoned_row = -1) {
  std::vector<float> values(32, value);
  if (poisoned_row >= 0) values[static_cast<size_t>(poisoned_row) * 4 + 2] = -2.0f;
  return HostTensor::of<float>({8, 4}, values);
}

class PlantedTest : public testing::TestWithParam<int64_t> {};

TEST_P(PlantedTest, TheFirstOpWithFiniteInputsIsNamedWithTheUsersLineWhereverItRan) {
  Client client = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = 4});
  const Planted p = planted(slice.mesh({{"data", 4}}));
  Executable step = slice.compile(p.program);
  step.run({{"x", rows_of(1)}}).wait();
  const HostTensor before = slice.read_state("w");

  const Error error = end_of(step.run({{"x", rows_of(1, GetParam())}}));
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("log"), HasSubstr(cat("non_finite_test.cc:", p.line)),
                                  HasSubstr("planted"), HasSubstr("nothing was committed")));
  EXPECT_EQ(slice.read_state("w").bytes, before.bytes);

  // The state went on from where it was: 8 rows more of exp(log(3)).
  const float sum = step.run({{"x", rows_of(1)}})["loss"].item<float>();
  EXPECT_NEAR(sum, 4 * (1 + 2 * 24), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(PoisonedRow, PlantedTest, testing::Values(0, 3, 7));

TEST(NonFiniteTest, RunsEnqueuedBehindAFailedOneDoNotCommitUntilTheUserWasTold) {
  Client client = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = 4});
  Executable step = slice.compile(planted(slice.mesh({{"data", 4}})).program);
  const auto run = [&](int64_t poisoned) { return step.run({{"x", rows_of(1, poisoned)}}); };
  const auto loss_after = [](int good) { return 4 * (1 + static_cast<float>(good) * 24); };
  const std::vector<gangway::Run> runs{run(-1), run(5), run(-1), run(-1)};
  EXPECT_NEAR(runs[0]["loss"].item<float>(), loss_after(1), 1e-3);
  const gangway::Run behind = run(-1);  // The user has not seen the failure yet.
  EXPECT_THAT(end_of(runs[1]).what(), HasSubstr("log"));
  for (const gangway::Run& later : {runs[2], runs[3], behind}) {
    const Error error = end_of(later);
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_THAT(error.what(), HasSubstr("the run before it did not commit"));
  }
  const std::vector<gangway::Run> anew{run(-1), run(-1)};
  EXPECT_NEAR(anew[0]["loss"].item<float>(), loss_after(2), 1e-3);
  EXPECT_NEAR(anew[1]["loss"].item<float>(), loss_after(3), 1e-3);
}

// One program on four devices, which cut dimensions along "data".
class GateTest : public testing::Test {
 protected:
  // Runs the step, expects that it commits nothing, and returns its error.
  std::string refusal(const Executable& step, const std::vector<Argument>& arguments) const {
    const States before = states_of(slice_);
    const Error error = end_of(step.run(arguments));
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("nothing was committed"));
    EXPECT_EQ(states_of(slice_), before);
    return error.what();
  }

  Client client_ = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice_ = client_.allocate({.devices = 4});
};

TEST_F(GateTest, AProgramThatUpdatesNothingFailsWhereItsOutputIsNotFiniteAndNoRunBehindItDoes) {
  ProgramBuilder b("evaluate", slice_.mesh({{"data", 4}}));
  const Value y = log(b.input("x", f32({8, 4}), {{"data", shard(0)}}));
  const int line = __LINE__ - 1;
  b.output("loss", sum(y));
  b.output("largest", reduce_max(y));
  b.require_finite("loss");
  const Executable evaluate = slice_.compile(b.build());
  const gangway::Run wrong = evaluate.run({{"x", rows_of(1, 5)}});
  const gangway::Run behind = evaluate.run({{"x", rows_of(1)}});
  EXPECT_THAT(end_of(wrong).what(),
              AllOf(HasSubstr("log"), HasSubstr(cat("non_finite_test.cc:", line))));
  for (const char* const output : {"loss", "largest"}) {
    EXPECT_EQ(error_of([&] { wrong[output].item<float>(); }).kind(), ErrorKind::kInvalid);
    EXPECT_EQ(behind[output].item<float>(), 0.0f);
  }
  EXPECT_EQ(evaluate.run({{"x", rows_of(1)}})["loss"].item<float>(), 0.0f);
}

HostTensor zeros_of(Dims dims) { return HostTensor(f32(std::move(dims))); }

// At 0 the loss of the square root is finite, but its slope is not.
TEST_F(GateTest, ANewValueThatIsNotFiniteIsNotCommittedThoughTheLossIsFinite) {
  ProgramBuilder b("sgd", slice_.mesh({{"data", 4}}));
  const Value w = b.state("w", filled(f32({8}), 1), {{"data", shard(0)}});
  const Value x = b.input("x", f32({8}), {{"data", shard(0)}});
  const Value loss = sum(sqrt(w * x));
  const int line = __LINE__ - 1;
  b.update(w, w - gradients(loss, {w})[0] * 0.1);
  b.output("loss", loss);
  b.require_finite("loss");
  const Executable step = slice_.compile(b.build());
  HostTensor ones = HostTensor::of<float>({8}, std::vector<float>(8, 1.0f)), one_zero = ones;
  std::memset(one_zero.bytes.data() + 5 * sizeof(float), 0, sizeof(float));
  EXPECT_EQ(step.run({{"x", ones}})["loss"].item<float>(), 8);
  EXPECT_THAT(refusal(step, {{"x", one_zero}}), HasSubstr(cat("non_finite_test.cc:", line)));
  EXPECT_LT(step.run({{"x", ones}})["loss"].item<float>(), 8);
}

// A label of padding is no class: its row is NaN, which where() keeps out of the loss alone.
TEST_F(GateTest, AGradientThatIsNotFiniteIsNotCommittedThoughTheLossIsFinite) {
  for (const double clip_norm : {0.0, 1.0}) {
    ProgramBuilder b(cat("labels ", clip_norm), slice_.mesh({{"data", 4}}));
    StateTree specs;
    specs.set("w", normal(f32({4, 3}), 1));
    const Tree net = b.state(cat("net", clip_norm), specs);
    const Value x = b.input("x", f32({8, 4}), {{"data", shard(0)}});
    const Value y = b.input("y", i32({8}), {{"data", shard(0)}});
    const Value each = cross_entropy(dot(x, net["w"]), y);
    const Value loss = mean(where(ge(y, 0), each, 0));
    adamw(b, net, gradients(loss, net), {.clip_norm = clip_norm});
    b.output("loss", loss);
    b.require_finite("loss");
    const Executable step = slice_.compile(b.build());
    const auto arguments = [](std::vector<int32_t> labels) -> std::vector<Argument> {
      const std::vector<float> rows(32, 0.5f);
      return {{"x", HostTensor::of<float>({8, 4}, rows)},
              {"y", HostTensor::of<int32_t>({8}, labels)},
              {"lr", 0.1f},
              {"step", 1.0f}};
    };
    step.run(arguments({0, 1, 2, 0, 1, 2, 0, 1})).wait();
    EXPECT_THAT(refusal(step, arguments({0, 1, 2, 0, 1, -100, 0, 1})), HasSubstr("cross_entropy"));
    step.run(arguments({0, 1, 2, 0, 1, 2, 0, 1})).wait();
  }
}

TEST_F(GateTest, AStepBelowOneIsNotCommittedAndTheErrorNamesTheStep) {
  ProgramBuilder b("steps", slice_.mesh({{"data", 4}}));
  const Value w = b.state("w", filled(f32({8}), 1), {{"data", shard(0)}});
  const Value loss = sum(square(w));
  adamw(b, w, gradients(loss, {w})[0], {.step_input = "count"});
  b.output("loss", loss);
  b.require_finite("loss");
  const Executable step = slice_.compile(b.build());
  for (const float count : {0.0f, -1.0f, 0.5f}) {
    EXPECT_THAT(refusal(step, {{"lr", 0.1f}, {"count", count}}),
                HasSubstr("count, which must be at least 1"));
  }
  EXPECT_THAT(refusal(step, {{"lr", 0.1f}, {"count", kInfinity}}), HasSubstr("\"count\""));
  EXPECT_THAT(refusal(step, {{"lr", kNan}, {"count", 1.0f}}), HasSubstr("\"lr\""));
  EXPECT_EQ(step.run({{"lr", 0.1f}, {"count", 1.0f}})["loss"].item<float>(), 8);
}

// A user calls the op without a norm, which would show that the gradient is not finite.
TEST_F(GateTest, AGradientWhoseSquaresNobodySumsIsLookedAt) {
  ProgramBuilder b("op", slice_.mesh({{"data", 4}}));
  const Value p = b.state("p", filled(f32({8}), 1)), m = b.state("m", zeros(f32({8}))),
              v = b.state("v", zeros(f32({8}))), g = b.input("g", f32({8})),
              one = b.input("one", f32());
  const AdamwState next = adamw({p, m, v}, g, {one, one, one, one}, {});
  b.update(p, next.p);
  b.update(m, next.m);
  b.update(v, next.v);
  b.output("loss", sum(p));
  b.require_finite("loss");
  const Executable step = slice_.compile(b.build());
  HostTensor bad = zeros_of({8});
  std::memcpy(bad.bytes.data() + 7 * sizeof(float), &kInfinity, sizeof(kInfinity));
  step.run({{"g", zeros_of({8})}, {"one", 1.0f}}).wait();
  EXPECT_THAT(refusal(step, {{"g", bad}, {"one", 1.0f}}), HasSubstr("\"g\""));
}

class PoisonedTraining : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    config_ = tiny_experts(write("text.txt", readable_text()));
  }

  LanguageModelConfig config_;
};

HostTensor with_element(HostTensor tensor, float value) {
  std::memcpy(tensor.bytes.data() + 5 * sizeof(float), &value, sizeof(value));
  return tensor;
}

// Steps with a bad weight fail and change nothing; with the weight put back, training goes on as if
// they had not been.
TEST_F(PoisonedTraining, AWeightThatIsNotANumberIsNamedAndChangesNothing) {
  const std::string name = "params.layers.moe.up";
  Trainer untouched(config_), trainer(config_);
  const std::vector<float> expected = untouched.train(6);
  std::vector<float> losses = trainer.train(3);

  const HostTensor good = trainer.slice.read_state(name);
  trainer.slice.write_state(name, with_element(good, kNan));
  const States before = states_of(trainer.slice);
  for (int i = 0; i < 2; ++i) {
    const Error error = end_of(trainer.enqueue());
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr(name));
    EXPECT_EQ(states_of(trainer.slice), before);
  }
  trainer.slice.write_state(name, good);
  trainer.steps_done = 3;
  trainer.step.set_position(3);
  for (float loss : trainer.train(3)) losses.push_back(loss);
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(states_of(trainer.slice), states_of(untouched.slice));
}

TEST_F(PoisonedTraining, AWeightThatOverflowsNamesTheOpThatOverflowed) {
  const std::string name = "params.layers.attn.qkv";
  Trainer trainer(config_);
  trainer.train(1);
  const HostTensor good = trainer.slice.read_state(name);
  trainer.slice.write_state(name, with_element(good, 3e38f));
  const States before = states_of(trainer.slice);
  const Error error = end_of(trainer.enqueue());
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("first result that is not finite"),
                                  HasSubstr("language_model.cc"), HasSubstr("train_step")));
  EXPECT_EQ(states_of(trainer.slice), before);
  trainer.slice.write_state(name, good);
  EXPECT_LT(trainer.train(1)[0], 6.0f);
}

TEST_F(PoisonedTraining, AnInfiniteLearningRateIsNotCommitted) {
  Trainer trainer(config_);
  trainer.train(1);
  const States before = states_of(trainer.slice);
  const Error error = end_of(trainer.enqueue(kInfinity));
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("lr"));
  EXPECT_EQ(states_of(trainer.slice), before);
  EXPECT_LT(trainer.train(1)[0], 6.0f);
}

struct Cut {
  std::string strategy;
  int64_t accumulate = 1;
};

class PoisonedGradients : public FolderTest, public testing::WithParamInterface<Cut> {};

// The head's weights make the loss large, and the gradients below the head so large that the sum of
// their squares is no number of f32. If only some devices have a part that overflows, no device may
// commit its own. Every device computes losses of rows of its own with copies or parts of its own,
// so equal losses afterwards show that the states of all devices are unchanged.
TEST_P(PoisonedGradients, AreNotCommittedOnAnyDeviceThoughTheLossIsFinite) {
  LanguageModelConfig config = tiny_model(write("text.txt", readable_text()));
  config.model.tied = false;
  config.accumulate = GetParam().accumulate;
  Trainer untouched(config, "local:2x2", GetParam().strategy);
  Trainer trainer(config, "local:2x2", GetParam().strategy);
  const std::vector<float> expected = untouched.train(5);
  std::vector<float> losses = trainer.train(2);

  const std::string name = "params.head";
  const HostTensor good = trainer.slice.read_state(name);
  HostTensor huge = good;
  for (size_t i = 0; i < good.as<float>().size(); ++i) {
    const float value = good.as<float>()[i] * 1e24f;
    std::memcpy(huge.bytes.data() + i * sizeof(float), &value, sizeof(value));
  }
  trainer.slice.write_state(name, huge);
  const States before = states_of(trainer.slice);
  const gangway::Run poisoned = trainer.enqueue(), behind = trainer.enqueue();
  EXPECT_THAT(end_of(poisoned).what(),
              AllOf(HasSubstr("nothing was committed"), HasSubstr("sum_squares")));
  EXPECT_EQ(end_of(behind).kind(), ErrorKind::kCancelled);
  EXPECT_EQ(states_of(trainer.slice), before);

  trainer.slice.write_state(name, good);
  trainer.steps_done = 2;
  trainer.step.set_position(2);
  for (const float loss : trainer.train(3)) losses.push_back(loss);
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(states_of(trainer.slice), states_of(untouched.slice));
}

INSTANTIATE_TEST_SUITE_P(Under, PoisonedGradients,
                         testing::Values(Cut{"data_parallel"}, Cut{"data_parallel", 2},
                                         Cut{"zero1"}, Cut{"zero1", 2}, Cut{"zero3"},
                                         Cut{"zero3", 2}),
                         [](const auto& of) {
                           return of.param.strategy +
                                  (of.param.accumulate > 1 ? "_microbatches" : "");
                         });

}  // namespace
}  // namespace gangway::programs
