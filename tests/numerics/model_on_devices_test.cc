// The transformer trained on CPU devices, through client, controller and executors, equals an
// independent evaluation: loss, all gradients, routing, and the parameters that AdamW computes.
#include <gtest/gtest.h>

#include <cmath>

#include "client/client.h"
#include "ir/build/autodiff.h"
#include "programs/optim/adamw.h"
#include "tests/numerics/reference_adamw.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/numerics/traced_model.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

const programs::AdamwConfig kAdamw{.weight_decay = 0.1, .clip_norm = 0.5};
constexpr double kRate = 1e-2;

struct Case {
  Model model;
  std::string address;
  int devices = 1;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Model& model : models()) {
    all.push_back({model, "local:1x1", 1});
    all.push_back({model, "local:2x2", 4});
  }
  return all;
}

// One step of AdamW. Its outputs are the loss, every gradient as "grad.NAME", and experts' load.
Program training_step(const programs::TransformerConfig& config, const Mesh& mesh) {
  ProgramBuilder b("training_step", mesh);
  Tree parameters = b.state("params", programs::transformer_parameters(config));
  Value tokens = b.input("tokens", i32({kBatch, config.seq}), {{"data", shard(0)}});
  programs::Losses losses = programs::transformer_loss(config, parameters, tokens);
  Tree grads = gradients(losses.total, parameters);
  b.output("loss", losses.total);
  b.output("grad_norm", programs::adamw(b, parameters, grads, kAdamw).grad_norm);
  grads.for_each([&](const std::string& name, const Value& g) { b.output("grad." + name, g); });
  if (config.moe.experts > 0) b.output("load", losses.load);
  b.require_finite("loss");
  return b.build();
}

Literal literal_of(const HostTensor& tensor) { return from_bytes(tensor.type, tensor.bytes); }

HostTensor tensor_of(const Literal& literal) {
  HostTensor tensor(literal.type);
  tensor.bytes = to_bytes(literal);
  return tensor;
}

class ModelOnDevicesTest : public ::testing::TestWithParam<Case> {
 protected:
  programs::TransformerConfig config(DType dtype) const {
    programs::TransformerConfig config = GetParam().model.config;
    config.storage = config.compute = dtype;
    return config;
  }

  Executable compile(const programs::TransformerConfig& config) {
    types_.clear();
    programs::transformer_parameters(config).for_each(
        [&](const std::string& name, const StateSpec& spec) { types_[name] = spec.type; });
    return slice_.compile(training_step(config, slice_.mesh({{"data", GetParam().devices}})));
  }

  // Writes the given parameters, and moments of zero.
  void write(const reference::Tensors& layers) {
    const reference::Tensors parameters = stacked(layers);
    for (const auto& [name, type] : types_) {
      slice_.write_state("params." + name, tensor_of({type, parameters.at(name)}));
      for (const char* moment : {"adamw.m.params.", "adamw.v.params."})
        slice_.write_state(moment + name, HostTensor(type));
    }
  }

  gangway::Run step(const Executable& executable, const Example& example, double number) {
    auto scalar = [&](double value) {
      return tensor_of({{types_.begin()->second.dtype, {}}, {value}});
    };
    const Literal tokens{i32({kBatch, GetParam().model.config.seq}),
                         {example.tokens.begin(), example.tokens.end()}};
    return executable.run(
        {{"tokens", tensor_of(tokens)}, {"lr", scalar(kRate)}, {"step", scalar(number)}});
  }

  // Compares loss and gradients with the reference's, gradients relative to the norm of them all.
  void expect_equals_reference(const gangway::Run& run, const Example& example,
                               double tolerance) const {
    const reference::Evaluation& expected = example.expected;
    EXPECT_NEAR(literal_of(run["loss"].to_host()).values[0], expected.loss,
                tolerance * std::abs(expected.loss));
    const reference::Tensors gradients = stacked(expected.gradients);
    std::vector<Literal> got, wanted;
    for (const auto& [name, type] : types_) {
      got.push_back(literal_of(run["grad." + name].to_host()));
      wanted.push_back({type, gradients.at(name)});
    }
    EXPECT_LT(relative_difference(got, wanted), tolerance);
    if (GetParam().model.config.moe.experts > 0) expect_same_routing(run, expected);
  }

  void expect_same_routing(const gangway::Run& run, const reference::Evaluation& expected) const {
    const programs::TransformerConfig& model = GetParam().model.config;
    const Literal load = literal_of(run["load"].to_host());
    const auto experts = static_cast<size_t>(model.moe.experts);
    const auto choices = static_cast<double>(kBatch * model.seq * model.moe.top_k);
    for (size_t at = 0; at < load.values.size(); ++at) {
      int64_t chosen = 0;
      for (const auto& group : expected.expert_loads[at / experts]) chosen += group[at % experts];
      EXPECT_EQ(std::lround(load.values[at] * choices), chosen) << "expert " << at;
    }
  }

  std::vector<Literal> states(const std::string& prefix) const {
    std::vector<Literal> all;
    for (const auto& [name, type] : types_)
      all.push_back(literal_of(slice_.read_state(prefix + name)));
    return all;
  }

  Client client_ = connect(GetParam().address, {.in_process = true, .memory_bytes = 32 << 20});
  Slice slice_ = client_.allocate({.devices = GetParam().devices});
  std::map<std::string, Type> types_;
};

TEST_P(ModelOnDevicesTest, InF64EqualsTheIndependentEvaluationInLossAndAllGradients) {
  const Example example = example_of(config(DType::kF64), DType::kF64, gangway::tests::test_seed());
  const Executable executable = compile(config(DType::kF64));
  write(example.parameters);
  expect_equals_reference(step(executable, example, 1), example, 1e-9);
}

TEST_P(ModelOnDevicesTest, InF32EqualsTheIndependentEvaluationWithTheSameRouting) {
  const Example example = example_of(config(DType::kF32), DType::kF32, gangway::tests::test_seed());
  const Executable executable = compile(config(DType::kF32));
  write(example.parameters);
  expect_equals_reference(step(executable, example, 1), example, 1e-5);
}

TEST_P(ModelOnDevicesTest, RepeatsBitForBit) {
  const Example example = example_of(config(DType::kF32), DType::kF32, gangway::tests::test_seed());
  const Executable executable = compile(config(DType::kF32));
  std::vector<std::vector<std::byte>> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    write(example.parameters);
    std::vector<std::vector<std::byte>> bytes;
    for (int number = 1; number <= 3; ++number)
      bytes.push_back(step(executable, example, number)["loss"].to_host().bytes);
    for (const auto& [name, type] : types_)
      bytes.push_back(slice_.read_state("params." + name).bytes);
    if (repeat == 0) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST_P(ModelOnDevicesTest, AdamwStepsEqualTheIndependentOptimizer) {
  const Example example = example_of(config(DType::kF64), DType::kF64, gangway::tests::test_seed());
  const Executable executable = compile(config(DType::kF64));
  write(example.parameters);
  const reference::ModelConfig model = reference_of(config(DType::kF64));
  const reference::AdamWConfig optimizer{.beta1 = kAdamw.beta1,
                                         .beta2 = kAdamw.beta2,
                                         .epsilon = kAdamw.eps,
                                         .decay = kAdamw.weight_decay,
                                         .clip_norm = kAdamw.clip_norm,
                                         .decayed = [&](const std::string& name) {
                                           const std::string stack = stack_of(name);
                                           const int of_layer =
                                               types_.at(stack).rank() - (stack == name ? 0 : 1);
                                           return of_layer >= 2;
                                         }};
  reference::Tensors parameters = example.parameters;
  reference::AdamWState state;
  for (int number = 1; number <= 4; ++number) {
    const auto at = reference::evaluate(model, parameters, example.tokens, kBatch);
    const double norm = reference::adamw_step(optimizer, kRate, at.gradients, parameters, state);
    const gangway::Run run = step(executable, example, number);
    EXPECT_NEAR(run["loss"].item<double>(), at.loss, 1e-9 * at.loss) << "step " << number;
    EXPECT_NEAR(run["grad_norm"].item<double>(), norm, 1e-9 * norm) << "step " << number;
    EXPECT_TRUE(number > 1 || norm > kAdamw.clip_norm) << "clipping is not put to the test";
  }
  auto expected = [&](const reference::Tensors& layers) {
    const reference::Tensors tensors = stacked(layers);
    std::vector<Literal> all;
    for (const auto& [name, type] : types_) all.push_back({type, tensors.at(name)});
    return all;
  };
  EXPECT_LT(relative_difference(states("params."), expected(parameters)), 1e-9);
  EXPECT_LT(relative_difference(states("adamw.m.params."), expected(state.m)), 1e-9);
  EXPECT_LT(relative_difference(states("adamw.v.params."), expected(state.v)), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Numerics, ModelOnDevicesTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) {
                           return name_of(test.param.model) + "On" +
                                  std::to_string(test.param.devices);
                         });

}  // namespace
}  // namespace gangway::numerics
