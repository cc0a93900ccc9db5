// The transformer that users train equals an evaluation that shares no code with it, as traced and
// as compiled for one device and for four.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/verify/verify.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/numerics/traced_model.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

Mesh devices(int64_t count) { return {{{"data", count}}}; }

class ModelTest : public ::testing::TestWithParam<Model> {
 protected:
  const programs::TransformerConfig& config() const { return GetParam().config; }
};

std::vector<Literal> gradients_in(const std::vector<Literal>& results, size_t parameters) {
  return {results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(parameters)};
}

// Compares the loss, every gradient relative to the norm of them all, and the load of each expert.
void expect_equals_reference(const programs::TransformerConfig& config, const Function& function,
                             const Example& example, const std::vector<Literal>& results,
                             double tolerance) {
  const reference::Evaluation& expected = example.expected;
  EXPECT_NEAR(results[0].values[0], expected.loss, tolerance * std::abs(expected.loss));
  const size_t parameters = function.parameters.size() - 1;
  EXPECT_LT(relative_difference(gradients_in(results, parameters), gradients_of(function, example)),
            tolerance);
  if (config.moe.experts == 0) return;
  const Literal& load = results.back();
  const double choices = static_cast<double>(kBatch * config.seq * config.moe.top_k);
  for (size_t at = 0; at < load.values.size(); ++at) {
    const auto experts = static_cast<size_t>(config.moe.experts);
    int64_t chosen = 0;
    for (const auto& group : expected.expert_loads[at / experts]) chosen += group[at % experts];
    EXPECT_EQ(std::lround(load.values[at] * choices), chosen)
        << "expert " << at % experts << " of layer " << at / experts;
  }
}

TEST_P(ModelTest, EqualsTheIndependentEvaluationInLossAndAllGradients) {
  const Example example = example_of(config(), DType::kF64, tests::test_seed());
  SCOPED_TRACE(cat("seed ", example.seed));
  const Function function = loss_and_gradients(config(), devices(1));
  expect_equals_reference(config(), function, example,
                          interpret(function, arguments_of(function, example)), 1e-9);
}

TEST_P(ModelTest, CompiledForOneAndForFourDevicesItComputesTheSame) {
  const Example example = example_of(config(), DType::kF64, tests::test_seed());
  SCOPED_TRACE(cat("seed ", example.seed));
  for (int64_t count : {1, 4}) {
    const Function function = loss_and_gradients(config(), devices(count));
    const std::vector<Literal> arguments = arguments_of(function, example);
    const Compiled compiled = compile_function(function, {});
    require_valid(*compiled.local.function);
    const std::vector<Literal> results = interpret_compiled(compiled, arguments);
    EXPECT_LT(relative_difference(results, interpret(function, arguments)), 1e-13)
        << count << " devices";
    expect_equals_reference(config(), function, example, results, 1e-9);
  }
}

// Largest gradient of the loss that reaches the router through the gates alone.
double router_gradient(const std::string& model) {
  const std::vector<Model> all = models();
  programs::TransformerConfig config = std::ranges::find(all, model, &Model::name)->config;
  config.moe.balance_coefficient = config.moe.z_coefficient = 0;
  const Example example = example_of(config, DType::kF64, tests::test_seed());
  const Function function = loss_and_gradients(config, devices(1));
  const std::vector<Literal> results = interpret(function, arguments_of(function, example));
  double largest = 0;
  for (size_t r = 0; r < results.size(); ++r) {
    if (function.result_names[r] != "layers.moe.router") continue;
    for (const double value : results[r].values) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

TEST(TopOneModel, TheLossTeachesTheRouterUnlessItsOnlyGateIsDividedByItself) {
  EXPECT_GT(router_gradient("MoeOneExpert"), 1e-6);
  EXPECT_LT(router_gradient("MoeOneExpertRenormalized"), 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Numerics, ModelTest, ::testing::ValuesIn(models()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace gangway::numerics
