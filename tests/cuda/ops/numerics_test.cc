// What a program chooses of its numerics reaches the card's libraries.
#include "ir/graph/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"

namespace gangway::numerics_test {
namespace {

// How far the largest element of a product of `k` summands is from the reference, of the sum of the
// summands' sizes at most.
double error_of_product(DType dtype, const Numerics& numerics) {
  constexpr int64_t kK = 48;
  Builder b("f");
  const Value x = b.parameter("x", {dtype, {20, kK}}), w = b.parameter("w", {dtype, {kK, 24}});
  b.result("y", dot(x, w));
  Function whole = b.build();
  whole.local = true;
  whole.mesh = {{{"data", 1}}};
  const auto function = std::make_shared<const Function>(std::move(whole));
  Rng rng(20261124, 3);
  std::vector<Literal> inputs;
  for (const Type& type : {function->types[0], function->types[1]}) {
    Literal& input = inputs.emplace_back(filled(type, 0));
    for (double& value : input.values) value = rng.uniform() - 0.5;
    round_values(input);
  }
  const Literal want = interpret_local(*function, {inputs})[0][0];
  OpDevices devices(emulated::card_maker(1).make(), 1);
  devices.numerics = numerics;
  const Literal got = devices.run(function, {inputs})[0][0];
  EXPECT_EQ(devices.report(), "");
  double largest = 0;
  for (size_t i = 0; i < want.values.size(); ++i)
    largest = std::max(largest, std::fabs(got.values[i] - want.values[i]));
  return largest / (0.25 * kK);
}

// TF32 has 10 bits of mantissa: each of the two operands is off by up to 2^-11 of itself.
constexpr double kTf32 = 2.0 / (1 << 11), kF32 = 1e-6;

TEST(Numerics, ProductsOfF32KeepAllTheirBitsUnlessTheProgramAllowsTf32) {
  EXPECT_LT(error_of_product(DType::kF32, {}), kF32);
  EXPECT_LT(error_of_product(DType::kF32, {.deterministic = true}), kF32);
  const double rounded = error_of_product(DType::kF32, {.allow_tf32 = true});
  EXPECT_GT(rounded, 3 * kF32);
  EXPECT_LT(rounded, kTf32);
}

TEST(Numerics, ProductsOfF64KeepTheirBitsWhatEverIsAllowed) {
  EXPECT_LT(error_of_product(DType::kF64, {.allow_tf32 = true}), 1e-14);
}

}  // namespace
}  // namespace gangway::numerics_test
