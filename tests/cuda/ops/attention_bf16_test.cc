// Attention in bf16 by Gangway's own kernels on the matrix unit, against sums in double precision.
//
// An element may be off by no more than rounding explains: the kernels round weights, the scores'
// gradients and results to bf16, and sum in f32. One rounding is off by 2^-8 of the number at most,
// so a sum of rounded summands is off by at most 2^-8 of the sum of their sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <ostream>

#include "executor/devices/cuda/lower/lower.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/op_table/case_run.h"
#include "tests/support/seed.h"

namespace gangway::attention_bf16_test {
namespace {

constexpr double kRounding = 1.0 / 256, kF32 = 3e-5;

struct Starts {
  double q, k;
};
struct Shape {
  std::string name;
  int64_t heads, queries, keys, head_dim;
  bool causal = false;
  std::optional<Starts> starts = std::nullopt;
  double scale = 0;
  int64_t batch = 1;
  bool is_below_zero = false;  // Every score is below zero.

  int64_t width() const { return heads * head_dim; }
  double factor() const {
    return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim));
  }
  int64_t seen(int64_t query) const {
    if (!causal) return keys;
    const double lead = starts ? starts->q - starts->k : static_cast<double>(keys - queries);
    return std::clamp(query + 1 + static_cast<int64_t>(lead), int64_t{0}, keys);
  }
  friend void PrintTo(const Shape& s, std::ostream* to) { *to << s.name; }
  Attrs attrs() const { return {{"heads", heads}, {"scale", scale}, {"causal", causal}}; }
};

// Sums, and the sums of the summands' absolute values.
struct Sums {
  std::vector<double> value, size;

  explicit Sums(const Literal& like) : value(like.values.size()), size(value) {}
  void add(size_t at, double summand) {
    value[at] += summand;
    size[at] += std::fabs(summand);
  }
  void expect_near(const Literal& got, const char* name) const {
    ASSERT_EQ(got.values.size(), value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      const double bound = 1.01 * kRounding * (size[i] + std::fabs(value[i])) + kF32;
      ASSERT_NEAR(got.values[i], value[i], bound) << name << " " << i;
    }
  }
};

class AttentionBf16 : public ::testing::TestWithParam<Shape> {
 protected:
  AttentionBf16() {
    const Shape& s = GetParam();
    for (const int64_t positions : {s.queries, s.keys, s.keys, s.queries}) {
      Literal& made =
          tensors_.emplace_back(filled({DType::kBF16, {s.batch, positions, s.width()}}, 0));
      for (double& x : made.values) x = 3 * rng_.uniform() - 1.5;
      const size_t index = tensors_.size() - 1;
      if (s.is_below_zero && index < 2) {
        for (double& x : made.values) x = index == 0 ? std::fabs(x) : -std::fabs(x);
      }
      round_values(made);
    }
  }
  const Literal& q() const { return tensors_[0]; }
  const Literal& k() const { return tensors_[1]; }
  const Literal& v() const { return tensors_[2]; }
  const Literal& dout() const { return tensors_[3]; }

  // `visit(row of lse, place in q, keys that it sees, place of key j)`
  template <class Visit>
  void for_each_query(const Visit& visit) const {
    const Shape& s = GetParam();
    for (int64_t unit = 0; unit < s.batch * s.heads; ++unit) {
      const int64_t batch = unit / s.heads, at = unit % s.heads * s.head_dim;
      for (int64_t i = 0; i < s.queries; ++i) {
        visit(as_size(unit * s.queries + i), as_size((batch * s.queries + i) * s.width() + at),
              s.seen(i), [&](int64_t j) { return as_size((batch * s.keys + j) * s.width() + at); });
      }
    }
  }
  static size_t as_size(int64_t n) { return static_cast<size_t>(n); }
  double inner(const Literal& a, size_t at_a, const Literal& b, size_t at_b) const {
    double sum = 0;
    for (size_t c = 0; c < as_size(GetParam().head_dim); ++c)
      sum += a.values[at_a + c] * b.values[at_b + c];
    return sum;
  }
  // Concatenates along the last dimension.
  static Literal side_by_side(const std::vector<Literal>& parts) {
    Type type = parts[0].type;
    const size_t width = as_size(type.dims.back()), row = parts.size() * width;
    type.dims.insert(type.dims.end() - 1, static_cast<int64_t>(parts.size()));
    Literal packed = filled(type, 0);
    for (size_t i = 0; i < packed.values.size(); ++i)
      packed.values[i] = parts[i % row / width].values[i / row * width + i % width];
    return packed;
  }
  template <class Body>
  void for_each_column(const Body& body) const {
    for (size_t c = 0; c < as_size(GetParam().head_dim); ++c) body(c);
  }

  // Results of the op on a card whose libraries offer products alone.
  std::vector<Literal> run(Op op, std::vector<Literal> inputs, uint64_t seed = 1) {
    const std::shared_ptr<Function> function = function_of(op, inputs);
    function->mesh = {{{"data", 1}}};
    OpDevices devices(emulated::card_maker(seed).make(), 1);
    std::vector<Literal> results = devices.run(function, {inputs})[0];
    EXPECT_EQ(devices.report(), "");
    return results;
  }
  // The kernels that the op is launched as.
  void expect_kernels(Op op, std::vector<Literal> inputs, const std::vector<std::string>& names) {
    cuda::Gpu gpu(emulated::card_maker(1).make().driver);
    const std::shared_ptr<const Function> function = function_of(op, inputs);
    cuda::Lowering call(gpu, *function, NodeId(0));
    cuda::lower_attention(call);
    ASSERT_EQ(call.commands.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(call.commands[i].kernel.bits, gpu.driver().kernel({}, names[i]).take().bits)
          << names[i];
    }
  }
  std::string width_of_kernel() const {
    return std::to_string((GetParam().head_dim + 31) / 32 * 32);
  }

  // The starts, if there are any, are inputs behind the tensors.
  std::shared_ptr<Function> function_of(Op op, std::vector<Literal>& inputs) const {
    if (const auto& starts = GetParam().starts) {
      for (const double start : {starts->q, starts->k}) inputs.push_back({i32(), {start}});
    }
    return op_table::function_of({op, GetParam().attrs(), nullptr, nullptr}, inputs);
  }

  // The inputs of the gradient op.
  std::vector<Literal> with_results() const {
    auto [out, lse] = attend();
    Literal rounded = q();
    rounded.values = out.value;
    round_values(rounded);
    round_values(lse);
    return {q(), k(), v(), rounded, lse, dout()};
  }
  // The results of the forward op in double precision: out and lse.
  std::pair<Sums, Literal> attend() const {
    const Shape& s = GetParam();
    Sums out(q());
    Literal lse = filled({DType::kF32, {s.batch, s.heads, s.queries}},
                         -std::numeric_limits<double>::infinity());
    for_each_query([&](size_t row, size_t at, int64_t seen, const auto& key) {
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      std::vector<double> scores;
      for (int64_t j = 0; j < seen; ++j) {
        scores.push_back(inner(q(), at, k(), key(j)) * s.factor());
        largest = std::max(largest, scores.back());
      }
      for (const double score : scores) total += std::exp(score - largest);
      if (seen > 0) lse.values[row] = largest + std::log(total);
      for (int64_t j = 0; j < seen; ++j) {
        const double weight = std::exp(scores[as_size(j)] - lse.values[row]);
        for_each_column([&](size_t c) { out.add(at + c, weight * v().values[key(j) + c]); });
      }
    });
    return {out, lse};
  }

 private:
  Rng rng_{tests::test_seed(), 12};
  std::vector<Literal> tensors_;
};

TEST_P(AttentionBf16, IsTheReferenceButForRounding) {
  const std::vector<Literal> got = run(Op::attention, {q(), k(), v()});
  const auto [out, lse] = attend();
  out.expect_near(got[0], "out");
  for (size_t i = 0; i < lse.values.size(); ++i) {
    if (std::isinf(lse.values[i])) {
      ASSERT_EQ(got[1].values[i], lse.values[i]) << i;
    } else {
      ASSERT_NEAR(got[1].values[i], lse.values[i], kF32 * (1 + std::fabs(lse.values[i]))) << i;
    }
  }
}

TEST_P(AttentionBf16, GradientIsTheReferenceButForRoundingWithTheSameBitsEachTime) {
  const std::vector<Literal> inputs = with_results();
  const std::vector<Literal> got = run(Op::attention_grad, inputs);
  const Literal &out = inputs[3], &lse = inputs[4];
  Sums dq(q()), dk(k()), dv(k());
  for_each_query([&](size_t row, size_t at, int64_t seen, const auto& key) {
    const double delta = inner(out, at, dout(), at);
    for (int64_t j = 0; j < seen; ++j) {
      const double score = inner(q(), at, k(), key(j)) * GetParam().factor();
      const double weight = std::exp(score - lse.values[row]);
      const double grad = weight * (inner(dout(), at, v(), key(j)) - delta) * GetParam().factor();
      for_each_column([&](size_t c) {
        dq.add(at + c, grad * k().values[key(j) + c]);
        dk.add(key(j) + c, grad * q().values[at + c]);
        dv.add(key(j) + c, weight * dout().values[at + c]);
      });
    }
  });
  dq.expect_near(got[0], "dq");
  dk.expect_near(got[1], "dk");
  dv.expect_near(got[2], "dv");
  const std::vector<Literal> again = run(Op::attention_grad, inputs, 3);
  for (size_t r = 0; r < got.size(); ++r) EXPECT_EQ(got[r].values, again[r].values) << r;
}

TEST_P(AttentionBf16, PackedAttentionHasTheSameBitsAndKernels) {
  if (GetParam().starts || GetParam().queries != GetParam().keys)
    GTEST_SKIP() << "queries and keys are not of the same positions";
  const Literal qkv = side_by_side({q(), k(), v()});
  const std::vector<Literal> got = run(Op::packed_attention, {qkv});
  const std::vector<Literal> want = run(Op::attention, {q(), k(), v()});
  for (size_t r = 0; r < want.size(); ++r) EXPECT_EQ(got[r].values, want[r].values) << r;
  const std::vector<Literal> inputs = with_results();
  const std::vector<Literal> packed = {qkv, inputs[3], inputs[4], inputs[5]};
  EXPECT_EQ(run(Op::packed_attention_grad, packed)[0].values,
            side_by_side(run(Op::attention_grad, inputs)).values);
  expect_kernels(Op::packed_attention, {qkv}, {"attention_bf16_" + width_of_kernel()});
  expect_kernels(Op::packed_attention_grad, packed,
                 {"attention_delta_bf16", "attention_grad_q_bf16_" + width_of_kernel(),
                  "attention_grad_kv_bf16_" + width_of_kernel()});
}

TEST_P(AttentionBf16, IsLaunchedOnTheMatrixUnit) {
  expect_kernels(Op::attention, {q(), k(), v()}, {"attention_bf16_" + width_of_kernel()});
  expect_kernels(Op::attention_grad, with_results(),
                 {"attention_delta_bf16", "attention_grad_q_bf16_" + width_of_kernel(),
                  "attention_grad_kv_bf16_" + width_of_kernel()});
}

// Whole tiles and ragged ones, heads of a kernel's width and narrower ones, fewer keys than a tile;
// queries that see none, and keys that no query sees.
INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionBf16,
    ::testing::Values(Shape{"whole", 1, 64, 128, 64, false, Starts{0, 0}},
                      Shape{"whole_causal", 1, 128, 128, 128, true},
                      Shape{"ragged", 2, 77, 77, 24, false, std::nullopt, 0, 2},
                      Shape{"ragged_causal", 1, 150, 150, 32, true},
                      Shape{"narrow_heads", 3, 40, 40, 16, true, std::nullopt, 0.7},
                      Shape{"odd_heads", 1, 65, 65, 80, true},
                      Shape{"wide_ragged", 1, 67, 67, 112, false},
                      // A key beyond the end, with a score of 0, would outweigh all others.
                      Shape{"far_below_zero", 1, 75, 75, 48, false, std::nullopt, 10, 1, true},
                      Shape{"short", 2, 5, 5, 48, true},
                      Shape{"later_queries", 1, 40, 130, 64, true, Starts{35, 8}},
                      Shape{"other_keys", 1, 70, 33, 96, false, Starts{0, 7}},
                      Shape{"queries_that_see_none", 1, 90, 70, 32, true, Starts{3, 73}},
                      Shape{"no_query_sees_any", 1, 20, 30, 64, true, Starts{0, 64}},
                      Shape{"all_keys_are_before", 1, 66, 100, 128, true, Starts{500, 0}}),
    [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace gangway::attention_bf16_test
