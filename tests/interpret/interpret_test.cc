#include "tests/interpret/interpret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Literal row_of(std::vector<double> values) {
  return {f32({static_cast<int64_t>(values.size())}), std::move(values)};
}

TEST(Literal, Bf16RoundsToNearestTiesToEven) {
  EXPECT_EQ(rounded(DType::kBF16, 1 + 1.0 / 256), 1);             // Half way: down to even.
  EXPECT_EQ(rounded(DType::kBF16, 1 + 3.0 / 256), 1 + 1.0 / 64);  // Half way: up to even.
  EXPECT_EQ(rounded(DType::kBF16, 1 + 1.1 / 256), 1 + 1.0 / 128);
  EXPECT_TRUE(std::isnan(rounded(DType::kBF16, std::nan(""))));
  EXPECT_TRUE(std::isinf(rounded(DType::kBF16, 3.4e38)));
}

TEST(Literal, IntegersSaturate) {
  EXPECT_EQ(rounded(DType::kI32, 1e10), 2147483647);
  EXPECT_EQ(rounded(DType::kI32, -2.9), -2);
  EXPECT_EQ(rounded(DType::kI32, std::nan("")), 0);
}

TEST(Literal, BytesGoBackAndForth) {
  Literal x{bf16({2}), {1.5, -3}};
  EXPECT_EQ(to_bytes(x).size(), 4u);
  EXPECT_EQ(from_bytes(x.type, to_bytes(x)), x);
  EXPECT_THROW(from_bytes(f32({2}), to_bytes(x)), Error);
}

TEST(Literal, PartsJoinToTheWhole) {
  Literal x{f32({2, 4}), {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_THAT(part_of(x, 1, 2, 1).values, ElementsAre(3, 4, 7, 8));
  EXPECT_EQ(join({part_of(x, 1, 2, 0), part_of(x, 1, 2, 1)}, 1), x);
}

TEST(Interpret, ArgumentsMustFit) {
  Builder b("f");
  b.result("y", exp(b.parameter("x", f32({2}))));
  Function f = b.build();
  try {
    interpret(f, {row_of({1, 2, 3})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("argument 0 (x) does not fit: expected f32[2]"));
  }
}

TEST(Interpret, RandomNumbersDoNotDependOnTheShape) {
  Builder b("f");
  Value key = b.parameter("key", i32({2}));
  b.result("row", random_normal(key, f32({12})));
  b.result("matrix", random_normal(key, f32({3, 4})));
  b.result("tail", b.emit1(Op::random_normal, {key},
                           {{"dims", Dims{5}}, {"dtype", DType::kF32}, {"offset", Dims{7}}}, {}));
  auto results = interpret(b.build(), {{i32({2}), {7, -9}}});
  EXPECT_EQ(results[0].values, results[1].values);
  EXPECT_EQ(std::vector(results[0].values.begin() + 7, results[0].values.end()), results[2].values);
}

TEST(Interpret, UniformBf16IsTheF32RoundedDown) {
  Builder b("f");
  Value key = b.parameter("key", i32({2}));
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64})
    b.result("u", random_uniform(key, {dtype, {64}}));
  auto results = interpret(b.build(), {{i32({2}), {3, 4}}});
  for (size_t i = 0; i < 64; ++i) {
    double exact = results[0].values[i], low = results[1].values[i];
    EXPECT_TRUE(low <= exact && exact - low <= exact / 128) << low << " for " << exact;
  }
  // The first f64 has the first f32's bits on top: both are of word 0.
  EXPECT_EQ(std::floor(results[2].values[0] * 0x1p24) * 0x1p-24, results[0].values[0]);
}

TEST(Interpret, RandomNumbersHaveTheirMoments) {
  Builder b("f");
  Value key = b.parameter("key", i32({2}));
  Value u = random_uniform(key, f32({20000})), n = random_normal(key, f32({20000}));
  for (Value moment : {mean(u), mean(square(u)), mean(n), mean(square(n))}) b.result("m", moment);
  auto results = interpret(b.build(), {{i32({2}), {1, 2}}});
  EXPECT_NEAR(results[0].values[0], 0.5, 0.01);
  EXPECT_NEAR(results[1].values[0], 1.0 / 3, 0.01);
  EXPECT_NEAR(results[2].values[0], 0, 0.03);
  EXPECT_NEAR(results[3].values[0], 1, 0.04);
}

// Two axes, so that a collective along one must leave the other alone.
Function collectives(Mesh mesh) {
  Builder b("local", std::move(mesh));
  Value x = b.parameter("x", f32({2}));
  auto reduce = [&](const char* axes, const char* reduction) {
    return b.emit1(Op::all_reduce, {x},
                   {{"axes", std::string(axes)}, {"reduction", std::string(reduction)}}, {});
  };
  b.result("data", reduce("data", "sum"));
  b.result("all", reduce("data,model", "max"));
  b.result(
      "mine",
      b.emit1(Op::shard_slice, {x},
              {{"axis", std::string("model")}, {"dim", int64_t{0}}, {"parts", int64_t{2}}}, {}));
  Function f = b.build();
  f.local = true;
  return f;
}

TEST(Interpret, DevicesMeetInCollectivesAlongTheNamedAxes) {
  Function f = collectives({{{"data", 2}, {"model", 2}}});
  auto results =
      interpret_local(f, {{row_of({1, 2})}, {row_of({3, 4})}, {row_of({5, 6})}, {row_of({7, 8})}});
  EXPECT_THAT(results[0][0].values, ElementsAre(6, 8));    // Devices 0 and 2.
  EXPECT_THAT(results[3][0].values, ElementsAre(10, 12));  // Devices 1 and 3.
  EXPECT_THAT(results[2][1].values, ElementsAre(7, 8));
  EXPECT_THAT(results[2][2].values, ElementsAre(5));
  EXPECT_THAT(results[3][2].values, ElementsAre(8));
}

TEST(Interpret, I32WrapsAndDividesWithoutFaults) {
  Builder b("f");
  Value x = b.parameter("x", i32({3})), y = b.parameter("y", i32({3}));
  b.result("mul", x * y);
  b.result("div", x / y);
  Literal a{i32({3}), {2147483647, 7, -2147483648.0}}, c{i32({3}), {2, 0, -1}};
  auto results = interpret(b.build(), {a, c});
  EXPECT_THAT(results[0].values, ElementsAre(-2, 0, -2147483648.0));
  EXPECT_THAT(results[1].values, ElementsAre(1073741823, 0, -2147483648.0));
}

TEST(Interpret, AWrongLabelGivesNaN) {
  Builder b("f");
  Value logits = b.parameter("logits", f32({3, 2})), labels = b.parameter("labels", i32({3}));
  b.result("loss", cross_entropy(logits, labels));
  Literal x{f32({3, 2}), {0, 0, 0, 0, 0, 0}};
  auto results = interpret(b.build(), {x, {i32({3}), {-1, 1, 2}}});
  EXPECT_TRUE(std::isnan(results[0].values[0]));
  EXPECT_NEAR(results[0].values[1], std::log(2), 1e-6);
  EXPECT_TRUE(std::isnan(results[0].values[2]));
}

TEST(Interpret, MoeDropsWhatIsBeyondTheCapacityInTokenOrder) {
  Builder b("f");
  Route route = moe_route(b.parameter("expert", i32({1, 3, 1})), 2, 2);
  b.result("slot_token", route.slot_token);
  b.result("token_slot", route.token_slot);
  auto results = interpret(b.build(), {{i32({1, 3, 1}), {1, 1, 1}}});
  EXPECT_THAT(results[0].values, ElementsAre(-1, -1, 0, 1));
  EXPECT_THAT(results[1].values, ElementsAre(2, 3, -1));
}

}  // namespace
}  // namespace gangway
