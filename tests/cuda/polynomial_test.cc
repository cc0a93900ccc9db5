// Polynomials of chains: tests which values are equal in whatever order they were computed, and
// which are not.
#include "executor/devices/cuda/lower/polynomial.h"

#include <gtest/gtest.h>

namespace gangway::cuda {
namespace {

TEST(Polynomials, AreAlikeWhereTheyAreTheSameSum) {
  Atoms atoms;
  const Polynomial x = atoms.variable(), y = atoms.variable();
  EXPECT_TRUE(alike(x * (y + 2) - x, x + y * x));
  EXPECT_TRUE(alike((x + y) * (x - y), x * x - y * y));
  EXPECT_TRUE(alike(x - x, 0));
  EXPECT_TRUE(alike(0.1 * x + 0.2 * x, 0.3 * x));
  EXPECT_FALSE(alike(x, y));
  EXPECT_FALSE(alike(x * x, x));
  EXPECT_FALSE(alike(x, 1.001 * x));
}

TEST(Polynomials, KnowFunctionsByTheirArguments) {
  Atoms atoms;
  const Polynomial x = atoms.variable(), y = atoms.variable();
  EXPECT_TRUE(alike(atoms.tanh(x + y), atoms.tanh(y + x)));
  EXPECT_TRUE(alike(atoms.max(x, 0), atoms.max(0, x)));
  EXPECT_FALSE(alike(atoms.tanh(x), atoms.tanh(2 * x)));
  EXPECT_FALSE(alike(atoms.tanh(x), atoms.max(x, x)));
  EXPECT_FALSE(alike(atoms.max(x, 0), atoms.max(y, 0)));
}

TEST(Polynomials, AreWhatAProgramComputes) {
  constexpr DType kF32 = DType::kF32;
  Atoms atoms;
  const Polynomial x = atoms.variable(), y = atoms.variable();
  FusedProgram program{.inputs = {{kF32}, {kF32}},
                       .code = {{FusedOp::kConstant, kF32, {}, 3},
                                {FusedOp::kSub, kF32, {0, 1}},
                                {FusedOp::kMul, kF32, {3, 2}},
                                {FusedOp::kTanh, kF32, {4}},
                                {FusedOp::kNeg, kF32, {5}},
                                {FusedOp::kAdd, kF32, {6, 0}}},
                       .outputs = {{7, kF32}}};
  const auto value = polynomial_of(program, {x, y}, atoms);
  ASSERT_TRUE(value);
  EXPECT_TRUE(alike(*value, x - atoms.tanh(3 * x - 3 * y)));
  program.code[3].op = FusedOp::kExp;
  EXPECT_FALSE(polynomial_of(program, {x, y}, atoms));
}

TEST(Polynomials, PolynomialsThatGrowTooLongAreGivenUp) {
  constexpr DType kF32 = DType::kF32;
  Atoms atoms;
  FusedProgram program{
      .inputs = {{kF32}, {kF32}}, .code = {{FusedOp::kAdd, kF32, {0, 1}}}, .outputs = {}};
  for (int32_t i = 2; i < 12; ++i) program.code.push_back({FusedOp::kMul, kF32, {i, i}});
  program.outputs = {{12, kF32}};
  EXPECT_FALSE(polynomial_of(program, {atoms.variable(), atoms.variable()}, atoms));
}

}  // namespace
}  // namespace gangway::cuda
