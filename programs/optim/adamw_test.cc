#include "programs/optim/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "programs/optim/schedule.h"
#include "tests/support/error_of.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Adamw, ParametersOfTwoTypesAreNamed) {
  ProgramBuilder b("two_types");
  Tree parameters, gradients;
  parameters.set("a", b.state("a", zeros(f32({2}))));
  parameters.set("b", b.state("b", zeros({DType::kF64, {2}})));
  gradients.set("a", b.input("da", f32({2})));
  gradients.set("b", b.input("db", {DType::kF64, {2}}));
  EXPECT_THAT(error_of([&] { adamw(b, parameters, gradients, {}); }).what(),
              AllOf(HasSubstr("expected parameters of one type, got \"a\" of f32 and \"b\" of f64"),
                    HasSubstr("call adamw for each type")));
}

// A program whose only parameter is of this type, and whose rate is computed from the step.
Program with_rate(DType dtype, const std::function<Value(Value)>& rate) {
  ProgramBuilder b("with_rate");
  const Value w = b.state("w", zeros({dtype, {2}}));
  adamw(b, w, b.input("dw", {dtype, {2}}), {.rate = rate});
  return b.build();
}

std::vector<std::string> inputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kInput) names.push_back(node.name);
  }
  return names;
}

TEST(Adamw, ARateThatTheProgramComputesIsNoInput) {
  const Program program = with_rate(
      DType::kF32, [](Value step) { return warmup_cosine(step, {.peak = 1, .warmup = 5}); });
  EXPECT_THAT(inputs_of(program), testing::UnorderedElementsAre("dw", "step"));
}

TEST(Adamw, ARateOfAnotherTypeThanTheParametersIsRefused) {
  const auto in_double = [](Value step) { return convert(step, DType::kF64); };
  EXPECT_THAT(error_of([&] { with_rate(DType::kF32, in_double); }).what(),
              HasSubstr("expected a learning rate of f32[], as the parameters are, got f64[]"));
  EXPECT_FALSE(inputs_of(with_rate(DType::kF64, in_double)).empty());
}

}  // namespace
}  // namespace gangway::programs
