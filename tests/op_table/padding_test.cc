// If an op's row says that it keeps zeros, zeros behind the inputs along a factor give zeros behind
// the results, and change nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/interpret/interpret.h"
#include "tests/op_table/case_sample.h"

namespace gangway::op_table::padding_test {
namespace {

constexpr InterpretOptions kExact{.round = false};
constexpr int64_t kMore = 3;

// The literal with kMore zeros behind dimension `dim`, or unchanged if that is -1.
Literal padded(const Literal& x, int dim) {
  if (dim < 0) return x;
  Type zeros = x.type;
  zeros.dims[static_cast<size_t>(dim)] = kMore;
  return join({x, filled(zeros, 0)}, dim);
}

// The results of the op on inputs that are padded along the factor.
std::vector<Literal> evaluate_padded(const Sample& sample, const Factor& factor) {
  std::vector<Literal> in;
  std::vector<Type> types;
  for (size_t i = 0; i < sample.in.size(); ++i) {
    in.push_back(padded(sample.in[i], factor.input_dims[i]));
    types.push_back(in.back().type);
  }
  Attrs attrs = sample.attrs;
  for (const AttrSpec& spec : row(sample.op).attrs) {
    if (spec.role != AttrRole::kResultSizes || factor.result_dims[0] < 0) continue;
    std::vector<int64_t> sizes = attrs.ints(spec.name);
    sizes[static_cast<size_t>(factor.result_dims[0])] += kMore;
    attrs.set(spec.name, sizes);
  }
  infer_types(sample.op, types, attrs, sample.body.get());
  return evaluate({sample.op, types, attrs, sample.body.get()}, in, kExact);
}

TEST(Padding, OpsKeepZerosWhereTheirRowsSaySo) {
  std::set<Op> keep, held;
  for (int i = 0; i < kOpCount; ++i) {
    const OpRow& facts = row(static_cast<Op>(i));
    if (facts.keeps_zero) keep.insert(facts.op);
    EXPECT_TRUE(facts.keeps_zero || facts.keeps_zero_when == nullptr) << facts.name;
  }
  for (const Sample& sample : samples(DType::kF64)) {
    if (!sample.can_evaluate()) continue;
    SCOPED_TRACE(sample.text());
    const std::vector<Literal> whole = evaluate(sample.call(), sample.in, kExact);
    for (const Factor& factor : row(sample.op).factors(sample.call())) {
      if (!may_pad(sample.call(), factor)) continue;
      held.insert(sample.op);
      const std::vector<Literal> got = evaluate_padded(sample, factor);
      for (size_t r = 0; r < whole.size(); ++r) {
        const Literal want = padded(whole[r], factor.result_dims[r]);
        ASSERT_EQ(got[r].type, want.type);
        for (size_t at = 0; at < want.values.size(); ++at) {
          ASSERT_NEAR(got[r].values[at], want.values[at], 1e-12 * (1 + std::abs(want.values[at])))
              << "factor " << factor.name << ", result " << r << ", element " << at;
        }
      }
    }
  }
  EXPECT_EQ(held, keep) << "every row that says so is held to it, and no other may be padded";
}

bool pads(Op op, const std::vector<Type>& types, Attrs attrs, size_t factor) {
  infer_types(op, types, attrs);
  const OpCall call{op, types, attrs};
  return may_pad(call, row(op).factors(call).at(factor));
}

TEST(Padding, OpsThatDoNotKeepZerosMayNotBePadded) {
  EXPECT_FALSE(pads(Op::exp, {f32({4})}, {}, 0));
  EXPECT_FALSE(pads(Op::div, {f32({4}), f32({4})}, {}, 0)) << "0 / 0";
  EXPECT_FALSE(pads(Op::take, {f32({6, 4}), i32({3})}, {}, 1)) << "an index of 0 takes row 0";
  const Attrs pad_one{{"low", Dims{0, 1}}, {"high", Dims{0, 0}}, {"value", 1.0}};
  EXPECT_FALSE(pads(Op::pad, {f32({2, 3})}, pad_one, 0));
}

TEST(Padding, ABroadcastIsPaddedWhereItsOperandIs) {
  const Attrs repeat{{"dims", Dims{4, 6}}, {"map", Dims{1}}};
  EXPECT_FALSE(pads(Op::broadcast, {f32({6})}, repeat, 0)) << "repeated rows";
  EXPECT_TRUE(pads(Op::broadcast, {f32({6})}, repeat, 1));
}

TEST(Padding, AFactorThatIsPartOfADimensionMayNotBePadded) {
  EXPECT_FALSE(pads(Op::reshape, {f32({4, 6})}, {{"dims", Dims{24}}}, 0));
  EXPECT_TRUE(pads(Op::reshape, {f32({4, 6})}, {{"dims", Dims{4, 2, 3}}}, 0));
}

TEST(Padding, ANormOfZerosNeedsItsEps) {
  const std::vector<Type> types = {f32({4, 8}), f32({8})};
  EXPECT_TRUE(pads(Op::rms_norm, types, {{"eps", 1e-5}}, 0));
  EXPECT_FALSE(pads(Op::rms_norm, types, {{"eps", 0.0}}, 0));
}

TEST(Padding, SizesOfAPartAreRoundedUp) {
  const std::vector<Type> types = {f32({5, 3})};
  Attrs attrs{{"dims", Dims{5, 3, 1}}};
  infer_types(Op::reshape, types, attrs);
  const OpCall call{Op::reshape, types, attrs};
  const Factors factors = row(Op::reshape).factors(call);
  std::vector<int64_t> parts(factors.size(), 1);
  parts[0] = 2;
  EXPECT_EQ(local_attrs(call, factors, parts).ints("dims"), (Dims{3, 3, 1}));
}

}  // namespace
}  // namespace gangway::op_table::padding_test
