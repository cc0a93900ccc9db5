// Walks the op table: compares the facts of each row with the reference, case by case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/graph/bodies.h"
#include "ir/op_table/distributed_op.h"
#include "ir/op_table/rows/dropless_experts.h"
#include "tests/interpret/collective.h"
#include "tests/interpret/interpret.h"
#include "tests/interpret/reference.h"
#include "tests/op_table/case_sample.h"

namespace gangway::op_table {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr InterpretOptions kExact{.round = false};

double largest(const Literal& a) {
  double top = 0;
  for (double value : a.values) top = std::fmax(top, std::fabs(value));
  return top;
}

void expect_near(const Literal& got, const Literal& expected, double tolerance) {
  ASSERT_EQ(got.type, expected.type);
  double bound = tolerance * (1 + largest(expected));
  for (size_t i = 0; i < expected.values.size(); ++i)
    ASSERT_NEAR(got.values[i], expected.values[i], bound) << "element " << i;
}

TEST(OpTable, EveryOpHasACaseAndAReference) {
  std::set<Op> seen;
  for (const Sample& sample : samples(DType::kF32)) seen.insert(sample.op);
  const std::set<Op> without_reference = {Op::custom_call, Op::fusion, Op::scan, Op::call};
  for (int i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    EXPECT_TRUE(seen.contains(op)) << to_string(op) << " has no case";
    const bool of_a_mesh = row(op).family == OpFamily::kCollective;
    EXPECT_EQ(internal::reference_of(op) != nullptr, !of_a_mesh && !without_reference.contains(op))
        << to_string(op);
    EXPECT_EQ(internal::group_reference_of(op) != nullptr, of_a_mesh) << to_string(op);
  }
}

TEST(OpTable, EveryRowIsComplete) {
  for (int i = 0; i < kOpCount; ++i) {
    const OpRow& r = row(static_cast<Op>(i));
    SCOPED_TRACE(r.name);
    EXPECT_EQ(r.op, static_cast<Op>(i));
    EXPECT_EQ(parse_op(r.name), r.op);
    EXPECT_TRUE(r.type_rule != nullptr && r.factors != nullptr && r.cost != nullptr);
    EXPECT_NE(r.gradient == nullptr, r.no_gradient.empty()) << "a gradient, or why there is none";
    EXPECT_FALSE(r.doc.empty());
  }
  EXPECT_EQ(parse_op("no such op"), std::nullopt);
}

TEST(OpTable, ResultsHaveTheInferredTypes) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const Sample& sample : samples(dtype)) {
      SCOPED_TRACE(sample.text());
      if (!sample.can_evaluate()) continue;
      std::vector<Literal> results = evaluate(sample.call(), sample.in);
      ASSERT_EQ(results.size(), sample.results.size());
      for (size_t r = 0; r < results.size(); ++r) {
        EXPECT_EQ(results[r].type, sample.results[r]);
        EXPECT_EQ(from_bytes(results[r].type, to_bytes(results[r])).values, results[r].values);
      }
    }
  }
}

// Every way to spoil one input: other element types, one dimension more, one element more.
std::vector<Type> spoiled(const Type& type) {
  std::vector<Type> mutants;
  for (int d = 0; d < kDTypeCount; ++d) {
    if (static_cast<DType>(d) != type.dtype) mutants.push_back(type.with(static_cast<DType>(d)));
  }
  for (size_t d = 0; d < type.dims.size(); ++d) {
    mutants.push_back(type);
    mutants.back().dims[d] += 1;
  }
  mutants.push_back(type);
  mutants.back().dims.push_back(2);
  return mutants;
}

// The rule's refusal of other inputs; "" if it takes them.
std::string refusal(const Sample& sample, const std::vector<Type>& types) {
  Attrs attrs = sample.attrs;
  try {
    infer_types(sample.op, types, attrs, sample.body.get());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    return error.message();
  }
}

TEST(OpTable, MisfitsAreRefusedNamingTheOpAndTheShape) {
  std::map<Op, int> refused;
  for (const Sample& sample : samples(DType::kF32)) {
    SCOPED_TRACE(sample.text());
    std::string name(to_string(sample.op));
    for (size_t i = 0; i < sample.types.size(); ++i) {
      for (const Type& mutant : spoiled(sample.types[i])) {
        std::vector<Type> types = sample.types;
        types[i] = mutant;
        std::string message = refusal(sample, types);
        if (message.empty()) continue;
        EXPECT_THAT(message, StartsWith(name + ": "));
        EXPECT_THAT(message, HasSubstr(to_string(mutant)));
        ++refused[sample.op];
      }
    }
    std::vector<Type> more = sample.types;
    more.resize(sample.types.size() + 40, f32({3}));
    if (row(sample.op).inputs_max >= 0) {
      EXPECT_THAT(refusal(sample, more), HasSubstr("wrong number of operands"));
    }
  }
  const std::set<Op> take_anything = {
      Op::constant, Op::iota,        Op::stop_gradient,        Op::barrier,    Op::timed,
      Op::convert,  Op::custom_call, Op::shard_slice,          Op::all_gather, Op::all_to_all,
      Op::permute,  Op::axis_index,  Op::collective_broadcast, Op::constrain,  Op::table};
  for (int i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    EXPECT_EQ(refused[op] == 0, take_anything.contains(op)) << to_string(op);
  }
}

// The results of a composite's decomposition on the case's data.
std::vector<Literal> decomposed(const Sample& sample, InterpretOptions options) {
  Builder b("decomposed");
  std::vector<Value> values;
  for (const Type& type : sample.types) values.push_back(b.parameter("p", type));
  Node node{.op = sample.op, .attrs = sample.attrs};
  for (Value result : row(sample.op).decompose({b, node, values, Loc::current()}))
    b.result("r", result);
  return interpret(b.build(), sample.in, options);
}

TEST(OpTable, DecompositionsEqualTheReference) {
  for (auto [dtype, tolerance, options] :
       {std::tuple(DType::kF64, 1e-11, kExact), std::tuple(DType::kF32, 1e-4, InterpretOptions{}),
        std::tuple(DType::kBF16, 2e-2, InterpretOptions{})}) {
    for (const Sample& sample : samples(dtype)) {
      SCOPED_TRACE(sample.text());
      ASSERT_EQ(row(sample.op).decompose != nullptr, row(sample.op).family == OpFamily::kComposite);
      if (row(sample.op).decompose == nullptr) continue;
      std::vector<Literal> expected = evaluate(sample.call(), sample.in, options);
      std::vector<Literal> got = decomposed(sample, options);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t r = 0; r < got.size(); ++r) {
        expect_near(got[r], expected[r], tolerance);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A function that gives sum(result * weight) over the float results, and its gradients.
struct Differentiated {
  explicit Differentiated(const Sample& sample, Rng& rng) {
    Builder b("f");
    std::vector<Value> values, wrt, weights;
    for (const Type& type : sample.types) values.push_back(b.parameter("p", type));
    for (const Type& type : sample.results) {
      weights.push_back(b.parameter("w", type));
      weight_data.push_back(
          random_literal(type, is_float(type.dtype) ? Fill::kAny : Fill::kBool, rng));
    }
    std::vector<Value> results =
        b.emit(sample.op, values, sample.attrs, Loc::current(), sample.body);
    Value loss = b.constant(f64(), 0);
    for (size_t r = 0; r < results.size(); ++r) {
      // The rules offer none through lse.
      const bool is_attention = sample.op == Op::attention || sample.op == Op::packed_attention;
      const bool skipped = is_attention && r == 1;
      if (skipped || !is_float(sample.results[r].dtype)) continue;
      loss = loss + sum(convert(results[r] * weights[r], DType::kF64));
      has_loss = true;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_float(sample.types[i].dtype)) continue;
      wrt.push_back(values[i]);
      leaves.push_back(i);
    }
    b.result("loss", loss);
    if (has_loss && !leaves.empty()) {
      for (Value gradient : gradients(loss, wrt)) b.result("g", gradient);
    }
    function = b.build();
  }

  std::vector<Literal> operator()(std::vector<Literal> in) const {
    in.insert(in.end(), weight_data.begin(), weight_data.end());
    return interpret(function, in, kExact);
  }

  Function function;
  std::vector<Literal> weight_data;
  std::vector<size_t> leaves;  // Inputs that have a gradient.
  bool has_loss = false;
};

// d loss / d in[leaf] by central differences.
Literal numeric_gradient(const Function& function, std::vector<Literal> in, size_t leaf) {
  Function loss_only = function;
  loss_only.results.resize(1);
  Literal gradient = filled(in[leaf].type, 0);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < gradient.values.size(); ++i) {
    double at = in[leaf].values[i];
    in[leaf].values[i] = at + kStep;
    double high = interpret(loss_only, in, kExact)[0].values[0];
    in[leaf].values[i] = at - kStep;
    double low = interpret(loss_only, in, kExact)[0].values[0];
    in[leaf].values[i] = at;
    gradient.values[i] = (high - low) / (2 * kStep);
  }
  return gradient;
}

TEST(OpTable, GradientsEqualFiniteDifferences) {
  std::set<Op> checked;
  Rng rng(sample_seed());
  for (const Sample& sample : samples(DType::kF64)) {
    SCOPED_TRACE(sample.text());
    if (row(sample.op).gradient == nullptr || sample.op == Op::stop_gradient) continue;
    Differentiated f(sample, rng);
    if (!f.has_loss || f.leaves.empty()) continue;
    std::vector<Literal> got = f(sample.in), in = sample.in;
    in.insert(in.end(), f.weight_data.begin(), f.weight_data.end());
    for (size_t i = 0; i < f.leaves.size(); ++i) {
      expect_near(got[i + 1], numeric_gradient(f.function, in, f.leaves[i]), 1e-7);
      if (HasFatalFailure()) return;
    }
    checked.insert(sample.op);
  }
  const std::set<Op> nothing_to_check = {Op::constant, Op::iota, Op::stop_gradient};
  for (int i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    if (row(op).gradient == nullptr || nothing_to_check.contains(op)) continue;
    EXPECT_TRUE(checked.contains(op)) << to_string(op) << "'s gradient was never checked";
  }
}

// The op on one half of a factor, as one of two devices runs it.
std::vector<Literal> half(const Sample& sample, const Factors& factors, size_t f, int64_t index) {
  std::vector<int64_t> parts(factors.size(), 1);
  parts[f] = 2;
  Attrs attrs = local_attrs(sample.call(), factors, parts);
  std::vector<Literal> in;
  std::vector<Type> types;
  for (size_t i = 0; i < sample.in.size(); ++i) {
    int dim = factors[f].input_dims[i];
    in.push_back(dim < 0 ? sample.in[i] : part_of(sample.in[i], dim, 2, index));
    types.push_back(in.back().type);
  }
  if (factors[f].result_dims[0] >= 0)
    say_part(sample.call(), cat("half: shard(", factors[f].result_dims[0], ")"), attrs);
  infer_types(sample.op, types, attrs);
  return evaluate_on({{{"half", 2}}}, index, {sample.op, types, attrs}, in, kExact);
}

Literal added(Literal a, const Literal& b) {
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

TEST(OpTable, CuttingAFactorGivesPartsOfTheWhole) {
  std::set<Op> may_cut, was_cut;
  for (const Sample& sample : samples(DType::kF64)) {
    SCOPED_TRACE(sample.text());
    if (!sample.can_evaluate()) continue;
    Factors factors = row(sample.op).factors(sample.call());
    std::vector<Literal> whole = evaluate(sample.call(), sample.in, kExact);
    for (size_t f = 0; f < factors.size(); ++f) {
      const Factor& factor = factors[f];
      if (factor.kind == FactorKind::kWhole || !factor.distributed_op.empty()) continue;
      may_cut.insert(sample.op);
      if (factor.size % 2 != 0) continue;
      std::vector<Literal> low = half(sample, factors, f, 0), high = half(sample, factors, f, 1);
      for (size_t r = 0; r < whole.size(); ++r) {
        SCOPED_TRACE(cat("factor ", factor.name, ", result ", r));
        int dim = factor.result_dims[r];
        bool partial = factor.kind == FactorKind::kReduce;
        Literal joined = dim >= 0  ? join({low[r], high[r]}, dim)
                         : partial ? added(low[r], high[r])
                                   : low[r];
        // A result that is neither cut nor partial is whole on both devices.
        expect_near(joined, whole[r], 1e-12);
        if (dim < 0 && !partial) expect_near(high[r], whole[r], 1e-12);
        if (HasFatalFailure()) return;
      }
      was_cut.insert(sample.op);
    }
  }
  EXPECT_EQ(may_cut, was_cut);
}

TEST(OpTable, FactorsNameLoweringsOfTheirRow) {
  std::map<Op, std::set<std::string_view>> named;
  for (const Sample& sample : samples(DType::kF64)) {
    SCOPED_TRACE(sample.text());
    for (const Factor& factor : row(sample.op).factors(sample.call())) {
      if (factor.distributed_op.empty()) continue;
      EXPECT_NE(factor.kind, FactorKind::kWhole);
      named[sample.op].insert(factor.distributed_op);
      const double sent =
          distributed_op_of(sample.op, factor.distributed_op).sent_bytes(sample.call(), 2);
      EXPECT_TRUE(std::isfinite(sent) && sent >= 0);
    }
  }
  for (int i = 0; i < kOpCount; ++i) {
    const OpRow& of = row(static_cast<Op>(i));
    for (const DistributedOp& distributed_op : of.distributed_ops) {
      EXPECT_TRUE(named[of.op].contains(distributed_op.name))
          << of.name << ": " << distributed_op.name;
      EXPECT_FALSE(distributed_op.doc.empty());
      // The partitioner itself lowers products of dropless experts (expert_rows.h).
      EXPECT_EQ(distributed_op.build == nullptr,
                std::string_view(distributed_op.name) == internal::kDroplessExperts);
    }
  }
}

TEST(OpTable, FactorsCoverEachDimensionAtMostOnceAndDivideIt) {
  for (const Sample& sample : samples(DType::kF32)) {
    SCOPED_TRACE(sample.text());
    std::set<std::pair<size_t, int>> inputs_seen, results_seen;
    for (const Factor& factor : row(sample.op).factors(sample.call())) {
      ASSERT_EQ(factor.input_dims.size(), sample.types.size());
      ASSERT_EQ(factor.result_dims.size(), sample.results.size());
      auto check = [&](const std::vector<int>& dims, const std::vector<Type>& types, auto& seen) {
        for (size_t i = 0; i < dims.size(); ++i) {
          if (dims[i] < 0) continue;
          ASSERT_LT(dims[i], types[i].rank());
          int64_t size = types[i].dims[static_cast<size_t>(dims[i])];
          EXPECT_TRUE(factor.kind == FactorKind::kWhole || factor.size == size ||
                      (factor.size > 0 && size % factor.size == 0));
          // Other factors may have the dimension too.
          if (!factor.distributed_op.empty()) continue;
          EXPECT_TRUE(seen.insert({i, dims[i]}).second) << "dim " << dims[i] << " of " << i;
        }
      };
      check(factor.input_dims, sample.types, inputs_seen);
      check(factor.result_dims, sample.results, results_seen);
    }
  }
}

// f(in with `more` added to some inputs) must be the sum of both when the op is linear in them.
void expect_linear(const Sample& sample, const std::vector<bool>& varied, Rng& rng) {
  if (std::find(varied.begin(), varied.end(), true) == varied.end()) return;
  std::vector<Literal> other = sample.in, both = sample.in;
  for (size_t i = 0; i < sample.in.size(); ++i) {
    if (!varied[i]) continue;
    other[i] = random_literal(sample.types[i], Fill::kAny, rng);
    both[i] = added(sample.in[i], other[i]);
  }
  std::vector<Literal> a = evaluate(sample.call(), sample.in, kExact);
  std::vector<Literal> b = evaluate(sample.call(), other, kExact);
  std::vector<Literal> c = evaluate(sample.call(), both, kExact);
  for (size_t r = 0; r < a.size(); ++r) {
    if (is_float(a[r].type.dtype)) expect_near(added(a[r], b[r]), c[r], 1e-12);
  }
}

TEST(OpTable, OpsAreLinearWhereTheirRowsSaySo) {
  Rng rng(sample_seed());
  for (const Sample& sample : samples(DType::kF64)) {
    SCOPED_TRACE(sample.text());
    Linear linear = row(sample.op).linear;
    if (linear == Linear::kNo || !sample.can_evaluate()) continue;
    std::vector<bool> all(sample.in.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = is_float(sample.types[i].dtype);
    if (linear == Linear::kAll) {
      expect_linear(sample, all, rng);
      continue;
    }
    for (size_t i = 0; i < all.size() && (linear == Linear::kEach || i == 0); ++i) {
      std::vector<bool> one(all.size(), false);
      one[i] = all[i];
      expect_linear(sample, one, rng);
    }
  }
}

// Changing one element of an operand that is written in place changes that element of results only.
TEST(OpTable, OperandsThatAreWrittenInPlaceAreReadElementByElement) {
  int seen = 0;
  for (const Sample& sample : samples(DType::kF64)) {
    const auto in_place = static_cast<size_t>(row(sample.op).in_place);
    if (in_place == 0) continue;
    SCOPED_TRACE(sample.text());
    ++seen;
    const std::vector<Literal> before = evaluate(sample.call(), sample.in);
    ASSERT_EQ(before.size(), in_place) << "each result takes the place of one operand";
    for (size_t i = 0; i < in_place; ++i) {
      ASSERT_EQ(before[i].type, sample.types[i]);
      std::vector<Literal> in = sample.in;
      if (in[i].values.empty()) continue;
      in[i].values[0] += 0.5;
      const std::vector<Literal> after = evaluate(sample.call(), in);
      for (size_t r = 0; r < in_place; ++r) {
        for (size_t at = 1; at < before[r].values.size(); ++at)
          EXPECT_EQ(after[r].values[at], before[r].values[at]) << i << " " << r << " " << at;
      }
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTable, ResultsThatShareABufferHaveTheBytesOfTheirOperand) {
  int seen = 0;
  for (const Sample& sample : samples(DType::kF32)) {
    if (!row(sample.op).shares_buffer) continue;
    SCOPED_TRACE(sample.text());
    ++seen;
    const std::vector<Literal> results = evaluate(sample.call(), sample.in);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(to_bytes(results[0]), to_bytes(sample.in[0]));
  }
  EXPECT_GT(seen, 1);
}

// Passes fuse all of this family: a tensor without operands, such as a constant, is of another one.
TEST(OpTable, AnElementwiseOpHasOperandsOfTheShapeOfItsResult) {
  int seen = 0;
  for (const Sample& sample : samples(DType::kF32)) {
    if (row(sample.op).family != OpFamily::kElementwise) continue;
    SCOPED_TRACE(sample.text());
    ++seen;
    EXPECT_FALSE(sample.types.empty());
    ASSERT_EQ(sample.results.size(), 1u);
    for (const Type& type : sample.types) EXPECT_EQ(type.dims, sample.results[0].dims);
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTable, AnOpThatSaysItsTimeIsBusyForItAndPassesOnItsOperand) {
  int seen = 0;
  for (const Sample& sample : samples(DType::kF32)) {
    const OpRow& facts = row(sample.op);
    SCOPED_TRACE(sample.text());
    EXPECT_EQ(facts.busy_ns != nullptr, sample.attrs.find("microseconds") != nullptr);
    if (facts.busy_ns == nullptr) continue;
    ++seen;
    Attrs attrs = sample.attrs;
    attrs.set("microseconds", int64_t{7});
    EXPECT_EQ(facts.busy_ns(attrs), 7'000);
    EXPECT_TRUE(facts.keeps_its_place) << "equal nodes are not one";
    EXPECT_EQ(to_bytes(evaluate(sample.call(), sample.in)[0]), to_bytes(sample.in[0]));
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTable, ALoopCostsAsManyBodiesAsItHasIterations) {
  int seen = 0;
  for (const Sample& sample : samples(DType::kF32)) {
    const OpRow& facts = row(sample.op);
    SCOPED_TRACE(sample.text());
    const AttrValue* length = sample.attrs.find("length");
    ASSERT_EQ(facts.repeats_body, length != nullptr);
    if (!facts.repeats_body || std::get<int64_t>(*length) == 0) continue;
    ++seen;
    EXPECT_TRUE(shares_body(sample.op));
    ASSERT_NE(sample.body, nullptr);
    Attrs twice = sample.attrs;
    twice.set("length", 2 * std::get<int64_t>(*length));
    const Cost once = facts.cost(sample.call());
    const Cost both = facts.cost({sample.op, sample.types, twice, sample.body.get()});
    EXPECT_GT(once.flops + once.bytes, 0);
    EXPECT_EQ(both.flops, 2 * once.flops);
    EXPECT_EQ(both.bytes, 2 * once.bytes);
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTable, CostsAreFinite) {
  for (const Sample& sample : samples(DType::kF32)) {
    Cost cost = row(sample.op).cost(sample.call());
    EXPECT_TRUE(std::isfinite(cost.flops) && cost.flops >= 0) << sample.text();
    EXPECT_TRUE(std::isfinite(cost.bytes) && cost.bytes >= 0) << sample.text();
  }
}

}  // namespace
}  // namespace gangway::op_table
