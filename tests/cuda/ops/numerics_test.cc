// The numerics that a program chooses reach the card's libraries and Gangway's own kernels.
#include "ir/graph/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"

namespace gangway::numerics_test {
namespace {

constexpr int64_t kK = 48;  // Number of summands of each element.

struct Product {
  std::string name;
  Value (*of)(Builder& b, DType dtype);
  friend void PrintTo(const Product& product, std::ostream* out) { *out << product.name; }
};

Value of_matrices(Builder& b, DType dtype) {
  const Value x = b.parameter("x", {dtype, {20, kK}}), w = b.parameter("w", {dtype, {kK, 24}});
  return dot(x, w);
}
Value of_experts(Builder& b, DType dtype) {
  const Value x = b.parameter("x", {dtype, {2, 20, kK}}),
              w = b.parameter("w", {dtype, {2, kK, 24}});
  return b.emit1(Op::grouped_dot, {x, w}, {{"capacity", int64_t{10}}}, Loc{});
}
Value of_experts_back(Builder& b, DType dtype) {
  const Value y = b.parameter("y", {dtype, {2, 20, kK}}),
              w = b.parameter("w", {dtype, {2, 24, kK}});
  return b.emit1(Op::grouped_dot, {y, w}, {{"transpose_w", true}, {"capacity", int64_t{10}}},
                 Loc{});
}
Value of_rows_of_experts(Builder& b, DType dtype) {
  const Value x = b.parameter("x", {dtype, {1, 2 * kK, 20}});
  const Value y = b.parameter("y", {dtype, {1, 2 * kK, 24}});
  return b.emit1(Op::grouped_dot_grad_w, {x, y}, {{"capacity", kK}}, Loc{});
}

// Each product runs on a card whose library multiplies experts, and on one whose library does not.
class Products : public testing::TestWithParam<std::tuple<Product, uint64_t>> {
 protected:
  Literal result(DType dtype, const Numerics& numerics, Literal* want = nullptr) {
    Builder b("f");
    b.result("y", std::get<0>(GetParam()).of(b, dtype));
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
    if (want != nullptr) *want = interpret_local(*function, {inputs})[0][0];
    OpDevices devices(emulated::card_maker(std::get<1>(GetParam())).make(), 1);
    devices.numerics = numerics;
    Literal got = devices.run(function, {inputs})[0][0];
    EXPECT_EQ(devices.report(), "");
    return got;
  }
  // The largest distance of an element from the reference, as a part of the largest possible sum of
  // the summands' sizes.
  double error(DType dtype, const Numerics& numerics) {
    Literal want;
    const Literal got = result(dtype, numerics, &want);
    double largest = 0;
    for (size_t i = 0; i < want.values.size(); ++i)
      largest = std::max(largest, std::fabs(got.values[i] - want.values[i]));
    return largest / (0.25 * kK);
  }
};

// TF32 has 10 bits of mantissa: each of the two operands is off by up to 2^-11 of itself.
constexpr double kTf32 = 2.0 / (1 << 11), kF32 = 1e-6;

TEST_P(Products, ProductsOfF32KeepAllTheirBitsUnlessTheProgramAllowsTf32) {
  EXPECT_LT(error(DType::kF32, {}), kF32);
  EXPECT_LT(error(DType::kF32, {.deterministic = true}), kF32);
  const double rounded = error(DType::kF32, {.allow_tf32 = true});
  EXPECT_GT(rounded, 3 * kF32);
  EXPECT_LT(rounded, kTf32);
}

TEST_P(Products, ProductsOfOtherTypesKeepTheirBitsWhereTf32IsAllowed) {
  EXPECT_LT(error(DType::kF64, {.allow_tf32 = true}), 1e-14);
  EXPECT_EQ(result(DType::kBF16, {.allow_tf32 = true}), result(DType::kBF16, {}));
}

INSTANTIATE_TEST_SUITE_P(
    Numerics, Products,
    testing::Combine(testing::Values(Product{"matrices", of_matrices},
                                     Product{"experts", of_experts},
                                     Product{"experts_back", of_experts_back},
                                     Product{"rows_of_experts", of_rows_of_experts}),
                     testing::Values(1, 2)),
    [](const auto& i) { return cat(std::get<0>(i.param).name, "_", std::get<1>(i.param)); });

}  // namespace
}  // namespace gangway::numerics_test
