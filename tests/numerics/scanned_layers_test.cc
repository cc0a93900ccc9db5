// Training a model whose layers are a scan over stacked states equals training one whose layers are
// copies with states of their own: losses, gradients, states, and the tensors of checkpoints.
#include <gtest/gtest.h>

#include <cmath>

#include "client/client.h"
#include "ir/build/autodiff.h"
#include "programs/optim/adamw.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/numerics/traced_model.h"
#include "tests/numerics/unrolled_transformer.h"
#include "tests/support/seed.h"

namespace gangway::numerics::scanned_layers_test {
namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 1e-12;

struct Case {
  Model model;
  int devices = 1;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Model& model : models()) {
    all.push_back({model, 1});
    all.push_back({model, 4});
  }
  return all;
}

// A training step in f64 with all gradients as outputs.
Program training_step(const programs::TransformerConfig& config, const Mesh& mesh, bool is_scan) {
  ProgramBuilder b("training_step", mesh, 3);
  const Tree parameters = b.state(
      "params", is_scan ? programs::transformer_parameters(config) : unrolled_parameters(config));
  Value tokens = b.input("tokens", i32({kBatch, config.seq}), {{"data", shard(0)}});
  const programs::Losses losses = is_scan ? programs::transformer_loss(config, parameters, tokens)
                                          : unrolled_loss(config, parameters, tokens);
  const Tree grads = gradients(losses.total, parameters);
  b.output("loss", losses.total);
  b.output("grad_norm", programs::adamw(b, parameters, grads, {}).grad_norm);
  grads.for_each([&](const std::string& name, const Value& g) { b.output("grad." + name, g); });
  if (!losses.load.empty()) b.output("load", losses.load);
  return b.build();
}

// The results of some training steps. Layers are apart.
struct Trained {
  std::vector<double> scalars;  // Loss and norm of each step.
  std::map<std::string, Literal> gradients, states;
  Literal load;
};

Literal literal_of(const HostTensor& tensor) { return from_bytes(tensor.type, tensor.bytes); }

// The values of a tensor in the state that holds it, or of its gradient in the state's gradient.
Literal layer_in(const HostTensor& state, const StateTensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.type.bytes());
  const auto row = static_cast<size_t>(tensor.row.value_or(0));
  return from_bytes(tensor.type, std::span(state.bytes).subspan(row * bytes, bytes));
}

Trained train(const Slice& slice, const Case& of, bool is_scan,
              const std::vector<int32_t>& tokens) {
  const programs::TransformerConfig& config = of.model.config;
  const Executable step =
      slice.compile(training_step(config, slice.mesh({{"data", of.devices}}), is_scan));
  Trained trained;
  for (int number = 1; number <= kSteps; ++number) {
    const gangway::Run run =
        step.run({{"tokens", HostTensor::of<int32_t>({kBatch, config.seq}, tokens)},
                  {"lr", 1e-2},
                  {"step", static_cast<double>(number)}});
    trained.scalars.push_back(run["loss"].item<double>());
    trained.scalars.push_back(run["grad_norm"].item<double>());
    if (number > 1) continue;
    if (config.moe.experts > 0) trained.load = literal_of(run["load"].to_host());
    for (const StateTensor& tensor : slice.state_tensors()) {
      if (!tensor.name.starts_with("params.")) continue;
      trained.gradients[tensor.name] =
          layer_in(run["grad." + tensor.state.substr(7)].to_host(), tensor);
    }
  }
  for (const StateTensor& tensor : slice.state_tensors()) {
    trained.states[tensor.name] = layer_in(slice.read_state(tensor.state), tensor);
  }
  return trained;
}

void expect_near_all(const std::map<std::string, Literal>& got,
                     const std::map<std::string, Literal>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, literal] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_LT(relative_difference({got.at(name)}, {literal}), kTolerance) << name;
  }
}

class ScannedLayers : public ::testing::TestWithParam<Case> {};

TEST_P(ScannedLayers, TrainAsUnrolledOnesDo) {
  const Example example =
      example_of(GetParam().model.config, DType::kF64, gangway::tests::test_seed());
  const Client client = connect(GetParam().devices == 1 ? "local:1x1" : "local:2x2",
                                {.in_process = true, .memory_bytes = 32 << 20});
  const auto run = [&](bool is_scan) {
    return train(client.allocate({.devices = GetParam().devices}), GetParam(), is_scan,
                 example.tokens);
  };
  const Trained unrolled = run(false), scanned = run(true);
  for (size_t i = 0; i < unrolled.scalars.size(); ++i) {
    EXPECT_NEAR(scanned.scalars[i], unrolled.scalars[i],
                kTolerance * std::abs(unrolled.scalars[i]));
  }
  expect_near_all(scanned.gradients, unrolled.gradients);
  expect_near_all(scanned.states, unrolled.states);
  EXPECT_EQ(scanned.load, unrolled.load) << "the same routing";
}

INSTANTIATE_TEST_SUITE_P(Numerics, ScannedLayers, ::testing::ValuesIn(cases()),
                         [](const auto& test) {
                           return name_of(test.param.model) + "On" +
                                  std::to_string(test.param.devices);
                         });

}  // namespace
}  // namespace gangway::numerics::scanned_layers_test
