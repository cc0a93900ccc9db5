#include "programs/optim/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gangway::programs
