// Optimizer steps and sums of squares of many tensors as one launch: which nodes run together, and
// that their bits are those of each alone.
#include "executor/devices/cuda/lower/many_tensors.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"
#include "tests/support/seed.h"

namespace gangway::many_tensors_test {
namespace {

LocalFunction local_of(Builder& b) {
  Function whole = b.build();
  whole.local = true;
  whole.mesh = {{{"data", 1}}};
  LocalFunction local;
  local.commit_begin = static_cast<NodeId>(whole.nodes.size());
  local.function = std::make_shared<const Function>(std::move(whole));
  return local;
}

std::vector<Together> found_in(const LocalFunction& local) {
  const StepMap steps(*local.function);
  return cuda::find_together(local, steps);
}

struct Rates {
  AdamwScalars scalars;
  explicit Rates(Builder& b, DType dtype = DType::kF32)
      : scalars{b.parameter("lr", {dtype, {}}), b.parameter("correction1", {dtype, {}}),
                b.parameter("correction2", {dtype, {}}), b.parameter("scale", {dtype, {}})} {}
};

AdamwState step(Builder& b, const std::string& name, const Type& type, DType gradient,
                const Rates& rates, AdamwOptions options = {}) {
  const AdamwState state{b.parameter(name, type), b.parameter(name + ".m", type),
                         b.parameter(name + ".v", type)};
  return adamw(state, b.parameter(name + ".g", {gradient, type.dims}), rates.scalars, options);
}

void give(Builder& b, const std::string& name, const AdamwState& state) {
  b.result(name, state.p);
  b.result(name + ".m", state.m);
  b.result(name + ".v", state.v);
}

// --- which ---------------------------------------------------------------------------------------

TEST(ManyTensors, StepsOfOneTypeAndSumsOfSquaresRunTogether) {
  Builder b("f");
  const Rates rates(b);
  give(b, "a", step(b, "a", f32({3, 5}), DType::kF32, rates));
  give(b, "b", step(b, "b", f32({7}), DType::kBF16, rates));
  b.result("a.sum", sum_squares(b.parameter("x", f32({4}))));
  give(b, "c", step(b, "c", f32({2}), DType::kF32, rates, {.weight_decay = 0}));
  b.result("b.sum", sum_squares(b.parameter("y", {DType::kBF16, {9}})));
  b.result("c.sum", sum_squares(b.parameter("z", f32({9}))));
  const std::vector<Together> want = {{0, 3}, {2, 5}};
  EXPECT_EQ(found_in(local_of(b)), want);
}

TEST(ManyTensors, StepsOfOtherRatesDoNotRunTogether) {
  Builder b("f");
  const Rates rates(b);
  Rates faster = rates;
  faster.scalars.lr = b.parameter("lr2", f32());
  give(b, "a", step(b, "a", f32({3}), DType::kF32, rates));
  give(b, "b", step(b, "b", f32({3}), DType::kF32, faster));
  give(b, "c", step(b, "c", f32({3}), DType::kF32, rates, {.beta1 = 0.5}));
  EXPECT_TRUE(found_in(local_of(b)).empty());
}

TEST(ManyTensors, NoOpIsDelayedBehindAReaderOfItsResult) {
  Builder b("f");
  const Value x = b.parameter("x", f32({3})), y = b.parameter("y", f32({3}));
  const Value first = sum_squares(x);
  const Value read = reshape(first, {1}) + 1;
  const Value second = sum_squares(y), third = sum_squares(x);
  b.result("sum", read + reshape(second + third, {1}));
  const LocalFunction local = local_of(b);
  const std::vector<Together> found = found_in(local);
  ASSERT_EQ(found.size(), 1u);
  for (const NodeId id : found[0]) EXPECT_NE(local.function->nodes[id].first_result, first.id());
}

TEST(ManyTensors, NoOpIsDelayedBehindAWriterOfItsOperand) {
  Builder b("f");
  const Rates rates(b);
  const Value p = b.parameter("p", f32({3}));
  b.result("p.sum", sum_squares(p));
  b.result("p", p * 2);
  b.result("q.sum", sum_squares(b.parameter("q", f32({3}))));
  LocalFunction local = local_of(b);
  const std::vector<Together> both = {{0, local.commit_begin - 1}};
  EXPECT_EQ(found_in(local), both);
  local.in_place = {{4, 1}};
  EXPECT_TRUE(found_in(local).empty());
}

TEST(ManyTensors, NothingRunsBehindTheCommitPointButBehindASectionsEnd) {
  Builder b("f");
  for (const char* name : {"x", "y", "z", "w"})
    b.result(cat(name, ".sum"), sum_squares(b.parameter(name, f32({3}))));
  LocalFunction local = local_of(b);
  EXPECT_EQ(found_in(local), std::vector<Together>({{0, 1, 2, 3}}));
  local.sections = {{.begin = 0}, {.begin = 2}};
  EXPECT_EQ(found_in(local), std::vector<Together>({{0, 1, 2, 3}}));
  local.commit_begin = 2;
  EXPECT_EQ(found_in(local), std::vector<Together>({{0, 1}, {2, 3}}));
}

// If large ones waited, a step that updates each parameter as its gradient comes would keep all
// gradients.
TEST(ManyTensors, NothingWaitsForALargeTensor) {
  for (const int64_t n : {100, 100'000}) {
    Builder b("f");
    const Value x = b.parameter("x", f32({n}));
    b.result("x.sum", sum_squares(x));
    b.result("y", exp(x));
    b.result("y.sum", sum_squares(b.parameter("z", f32({n}))));
    EXPECT_EQ(found_in(local_of(b)).size(), n == 100 ? 1u : 0u);
  }
}

TEST(ManyTensors, ALaunchTakesAsManyTensorsAsThereIsRoomFor) {
  Builder b("f");
  for (int i = 0; i < cuda::kManyTensors + 2; ++i)
    b.result(cat("sum.", i), sum_squares(b.parameter(cat("x.", i), f32({3}))));
  const std::vector<Together> found = found_in(local_of(b));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].size(), static_cast<size_t>(cuda::kManyTensors));
  EXPECT_EQ(found[1].size(), 2u);
}

TEST(ManyTensors, OneLaunchUpdatesAllTensorsAndTwoSumTheirSquares) {
  Builder b("f");
  const Rates rates(b);
  for (int i = 0; i < 50; ++i) {
    const std::string name = cat("p.", i);
    give(b, name, step(b, name, f32({3 + i}), DType::kF32, rates));
  }
  for (int i = 0; i < 50; ++i)
    b.result(cat("sum.", i), sum_squares(b.parameter(cat("x.", i), f32({3 + i}))));
  const LocalFunction local = local_of(b);
  cuda::Gpu gpu(emulated::card_maker(1).make().driver);
  const std::vector<Together> found = found_in(local);
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    cuda::Lowering call(gpu, *local.function, found[i].back());
    cuda::lower_together(call, found[i]);
    EXPECT_EQ(found[i].size(), 50u);
    EXPECT_EQ(call.commands.size(), i + 1);
  }
}

// --- bits ----------------------------------------------------------------------------------------

// Runs functions on one card, in sections of two steps.
class OnACard {
 public:
  std::vector<Literal> run(const LocalFunction& local, const std::vector<Literal>& inputs) {
    devices_.section_steps = 2;
    std::vector<Literal> results = devices_.run(local.function, {inputs}, 2)[0];
    EXPECT_EQ(devices_.report(), "");
    return results;
  }
  std::vector<Literal> inputs_of(const LocalFunction& local) {
    std::vector<Literal> inputs;
    for (size_t p = 0; p < local.function->parameters.size(); ++p) {
      Literal& input = inputs.emplace_back(filled(local.function->types[p], 0));
      for (double& value : input.values) value = rng_.uniform() + 0.25;
      round_values(input);
    }
    return inputs;
  }

 private:
  OpDevices devices_{emulated::card_maker(tests::test_seed()).make(), 1};
  Rng rng_{tests::test_seed(), 5};
};

// Sizes of tensors, `copies` of each: no elements, one, less than a piece, a piece and more.
std::vector<int64_t> sizes_of(int copies) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < copies; ++i)
    for (const int64_t n : {1, 30, 8192, 0, 8193, 20'000}) sizes.push_back(n);
  return sizes;
}

void expect_same(const Literal& got, const Literal& want) { EXPECT_EQ(got.values, want.values); }

class ManyTensorsOf : public ::testing::TestWithParam<std::pair<DType, DType>> {};

TEST_P(ManyTensorsOf, StepsHaveTheBitsOfEachAlone) {
  const auto [dtype, gradient] = GetParam();
  OnACard card;
  const std::vector<int64_t> sizes = sizes_of(1);
  Builder b("all");
  const Rates rates(b, dtype);
  const auto add = [&, of = dtype, g = gradient](Builder& to, const Rates& at, size_t i) {
    const AdamwOptions options{.weight_decay = i % 2 == 0 ? 0.1 : 0};
    give(to, cat("p.", i), step(to, cat("p.", i), {of, {sizes[i]}}, g, at, options));
  };
  for (size_t i = 0; i < sizes.size(); ++i) add(b, rates, i);
  const LocalFunction all = local_of(b);
  ASSERT_EQ(found_in(all).size(), 1u);
  const std::vector<Literal> inputs = card.inputs_of(all);
  const std::vector<Literal> got = card.run(all, inputs);
  for (size_t i = 0; i < sizes.size(); ++i) {
    Builder one("one");
    const Rates at(one, dtype);
    add(one, at, i);
    std::vector<Literal> own(inputs.begin(), inputs.begin() + 4);
    own.insert(own.end(), inputs.begin() + 4 + 4 * static_cast<int64_t>(i),
               inputs.begin() + 8 + 4 * static_cast<int64_t>(i));
    const LocalFunction alone = local_of(one);
    const std::vector<Literal> want = card.run(alone, own);
    const std::vector<Literal> reference = interpret_local(*alone.function, {own})[0];
    for (size_t r = 0; r < 3; ++r) {
      SCOPED_TRACE(cat(sizes[i], " elements, result ", r));
      expect_same(got[3 * i + r], want[r]);
      for (size_t e = 0; e < want[r].values.size(); ++e)
        ASSERT_NEAR(want[r].values[e], reference[r].values[e], 1e-5);
    }
  }
}

TEST_P(ManyTensorsOf, SumsOfSquaresHaveTheBitsOfEachAlone) {
  const DType dtype = GetParam().second;
  OnACard card;
  for (const int copies : {1, 6}) {
    const std::vector<int64_t> sizes = sizes_of(copies);
    Builder b("all");
    for (size_t i = 0; i < sizes.size(); ++i)
      b.result(cat("sum.", i), sum_squares(b.parameter(cat("x.", i), {dtype, {sizes[i]}})));
    const LocalFunction all = local_of(b);
    ASSERT_EQ(found_in(all).size(), 1u);
    const std::vector<Literal> inputs = card.inputs_of(all);
    const std::vector<Literal> got = card.run(all, inputs);
    for (size_t i = 0; i < sizes.size(); ++i) {
      SCOPED_TRACE(cat(sizes[i], " elements"));
      Builder one("one");
      one.result("sum", sum_squares(one.parameter("x", {dtype, {sizes[i]}})));
      const LocalFunction alone = local_of(one);
      expect_same(got[i], card.run(alone, {inputs[i]})[0]);
      const double want = interpret_local(*alone.function, {{inputs[i]}})[0][0].values[0];
      EXPECT_NEAR(got[i].values[0], want, 1e-5 * want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ManyTensorsOf,
                         ::testing::Values(std::pair{DType::kF32, DType::kF32},
                                           std::pair{DType::kF32, DType::kBF16},
                                           std::pair{DType::kF64, DType::kF64}),
                         [](const auto& i) {
                           return cat(to_string(i.param.first), "_", to_string(i.param.second));
                         });

}  // namespace
}  // namespace gangway::many_tensors_test
