// Tests how programs' optimizers compute their scalars, by the reference executor in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "programs/optim/adamw.h"
#include "tests/interpret/interpret.h"

namespace gangway::numerics {
namespace {

// Corrections of the first and the second moment at `step`.
std::vector<Literal> corrections(const programs::AdamwConfig& config, double step) {
  ProgramBuilder b("optimizer");
  const Value w = b.state("w", zeros(f32()));
  adamw(b, w, b.input("gradient", f32()), config);
  const Program program = b.build();
  const auto call = std::find_if(program.nodes.begin(), program.nodes.end(),
                                 [](const auto& node) { return node.kind == NodeKind::kCall; });
  Function function = *program.functions[call->function];
  const auto update = std::find_if(function.nodes.begin(), function.nodes.end(),
                                   [](const Node& node) { return node.op == Op::adamw; });
  function.results = {update->inputs[5], update->inputs[6]};
  function.result_names = {"correction1", "correction2"};
  std::vector<Literal> arguments;
  for (const Parameter& parameter : function.parameters)
    arguments.push_back({f32(), {parameter.name == "step" ? step : 1}});
  return interpret(function, arguments);
}

TEST(Adamw, CorrectsTheBiasOfSlowMomentsToTheLastDigits) {
  for (double step : {1.0, 2.0, 1000.0, 1e6}) {
    const std::vector<Literal> found = corrections({.beta1 = 0.9, .beta2 = 0.999}, step);
    const double betas[] = {0.9, 0.999};
    for (size_t i = 0; i < 2; ++i) {
      const double want = 1 - std::pow(betas[i], step);
      EXPECT_NEAR(found[i].values[0], want, 1e-6 * want)
          << "beta " << betas[i] << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
