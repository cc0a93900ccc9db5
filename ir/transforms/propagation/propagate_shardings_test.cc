#include "ir/transforms/propagation/propagate_shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "runtime/base/error.h"

namespace gangway::propagate_shardings_test {
namespace {

using testing::HasSubstr;

const Mesh kMesh{{{"data", 2}, {"model", 4}}};

struct Propagated {
  Function function;
  Propagation found;

  explicit Propagated(Builder& b, const std::vector<Sharding>& results = {}) : function(b.build()) {
    std::vector<Sharding> parameters;
    for (const Parameter& parameter : function.parameters)
      parameters.push_back(canonical(function.mesh, resolve(function.mesh, parameter.placements)));
    found = propagate_shardings(function, parameters, results);
  }

  // The only node of this op, or the `nth`.
  NodeId node(Op op, int nth = 0) const {
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      if (function.nodes[id].op == op && nth-- == 0) return id;
    }
    ADD_FAILURE() << "no " << to_string(op);
    return 0;
  }
  std::string given(Op op, int nth = 0) const {
    return to_string(function.mesh, found.shardings[function.nodes[node(op, nth)].first_result]);
  }
  std::string wanted(Op op, size_t operand, int nth = 0) const {
    return to_string(function.mesh, found.required[node(op, nth)][operand]);
  }
  const ShardingDecision* decision(Op op, int nth = 0) const {
    for (const ShardingDecision& taken : found.decisions) {
      if (taken.node == node(op, nth)) return &taken;
    }
    return nullptr;
  }
};

TEST(Propagation, AnAnnotationInsideReachesForwardsAndBackwards) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({8, 16}));
  Value marked = b.shard(tanh(exp(x)), {{"model", shard(1)}});
  b.result("y", neg(marked));
  const Propagated p(b);
  EXPECT_EQ(p.wanted(Op::exp, 0), "{model: shard(1)}") << "a slice of x, which is whole";
  EXPECT_EQ(p.given(Op::exp), "{model: shard(1)}");
  EXPECT_EQ(p.given(Op::tanh), "{model: shard(1)}");
  EXPECT_EQ(p.given(Op::neg), "{model: shard(1)}");
}

TEST(Propagation, AxesThatAnAnnotationDoesNotNameStayOpen) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  b.result("y", exp(b.shard(x, {{"model", shard(1)}})));
  const Propagated p(b);
  EXPECT_EQ(p.given(Op::exp), "{data: shard(0), model: shard(1)}");
}

TEST(Propagation, AnAnnotationCanSayThatAValueIsWhole) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  Value whole = b.shard(exp(x), {{"data", replicate()}});
  b.result("y", neg(whole));
  const Propagated p(b);
  EXPECT_EQ(p.given(Op::exp), "{data: shard(0)}");
  EXPECT_EQ(p.wanted(Op::constrain, 0), "{}");
  EXPECT_EQ(p.given(Op::neg), "{}");
}

TEST(Propagation, ACotangentIsPlacedAsItsValueIs) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({8, 16}));
  Value marked = b.shard(exp(x), {{"model", shard(1)}}, 1);
  std::vector<Value> grads = gradients(sum(square(marked)), {x});
  b.result("dx", grads[0]);
  const Propagated p(b);
  const Node& backward = p.function.nodes[p.node(Op::constrain, 1)];
  EXPECT_EQ(backward.attrs.text("placements"), "model: shard(1)");
  EXPECT_EQ(backward.attrs.integer("priority"), 1);
  EXPECT_EQ(p.given(Op::constrain, 1), "{model: shard(1)}");
}

TEST(Propagation, TwoAnnotationsInConflictNameBothPlaces) {
  const auto message = [](int second_priority, bool of_one_value) {
    Builder b("f", kMesh);
    Value x = exp(b.parameter("x", f32({8, 16})));
    Value rows = b.shard(x, {{"model", shard(0)}}, 0, {"model.cc", 10});
    Value columns =
        b.shard(of_one_value ? x : rows, {{"model", shard(1)}}, second_priority, {"model.cc", 20});
    b.result("rows", neg(rows));
    b.result("columns", neg(columns));
    try {
      Propagated p(b);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (bool of_one_value : {false, true}) {
    EXPECT_THAT(message(0, of_one_value), HasSubstr("disagree: {model: shard(0)} at model.cc:10"));
    EXPECT_THAT(message(0, of_one_value), HasSubstr("and {model: shard(1)} at model.cc:20"));
    EXPECT_EQ(message(1, of_one_value), "accepted");
  }
}

// An annotation is complete on the axes that it names: a value that one of them cuts is not whole.
TEST(Propagation, AnAnnotationThatAValueIsWholeIsInConflictWithACutAlongThatAxis) {
  const auto message = [](const AxisPlacements& whole, int whole_priority, bool of_one_value) {
    Builder b("f", kMesh);
    Value x = exp(b.parameter("x", f32({8, 16})));
    Value rows = b.shard(x, {{"model", shard(0)}}, 0, {"model.cc", 10});
    Value other = b.shard(of_one_value ? x : rows, whole, whole_priority, {"model.cc", 20});
    b.result("rows", neg(rows));
    b.result("other", neg(other));
    try {
      Propagated p(b);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (bool of_one_value : {false, true}) {
    const std::string in_conflict = message({{"model", replicate()}}, 0, of_one_value);
    EXPECT_THAT(in_conflict, HasSubstr("disagree: {model: shard(0)} at model.cc:10"));
    EXPECT_THAT(in_conflict, HasSubstr("and {model: replicate} at model.cc:20"));
    EXPECT_EQ(message({{"model", replicate()}}, 1, of_one_value), "accepted");
    EXPECT_EQ(message({{"data", replicate()}}, 0, of_one_value), "accepted") << "another axis";
  }
}

TEST(Propagation, AConstantMayBeAnnotatedInTwoWays) {
  Builder b("f", kMesh);
  const Type type = f32({8, 16});
  b.result("rows", b.shard(b.constant(type, 0), {{"model", shard(0)}}));
  b.result("columns", b.shard(b.constant(type, 0), {{"model", shard(1)}}));
  Function merged = b.build();
  merged.nodes[3].inputs[0] = merged.nodes[0].first_result;  // The result of simplify's merge.
  EXPECT_NO_THROW(propagate_shardings(merged, {}));
}

// y[batch, n] = x . w, where w is far larger than x.
Function product(int weight_priority) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({8, 64}), {{"data", shard(0)}});
  Value w = b.parameter("w", f32({64, 4096}), {{"data", shard(0)}});
  b.set_priorities(w, {weight_priority});
  b.result("y", dot(x, w));
  return b.build();
}

TEST(Propagation, CostSettlesAConflictWithinOnePriority) {
  const Function f = product(0);
  const Propagation found = propagate_shardings(f, {{shard(0), {}}, {shard(0), {}}});
  ASSERT_EQ(found.decisions.size(), 1u);
  const ShardingDecision& taken = found.decisions[0];
  EXPECT_EQ(taken.from, 1u) << "w is larger: it stays, and x is cut anew";
  EXPECT_EQ(taken.cost.conversions, 1);
  EXPECT_EQ(taken.cost.bytes, 8 * 64 * 4 / 4.0);
  ASSERT_EQ(taken.rejected.size(), 1u);
  EXPECT_EQ(taken.rejected[0].from, 0u);
  EXPECT_EQ(taken.rejected[0].cost.bytes, 64 * 4096 * 4 / 2.0);
  EXPECT_FALSE(taken.rejected[0].of_later_priority);
  const std::string text = explain(f, found, f.results[0]);
  EXPECT_THAT(text, HasSubstr("is partial on data"));
  EXPECT_THAT(text, HasSubstr("because parameter \"w\" is shard(0); through dot"));
  EXPECT_THAT(text, HasSubstr("(which moves 512 B in 1 conversion)"));
  EXPECT_THAT(text, HasSubstr("not as parameter \"x\" asks, which would have moved 512.0 KiB"));
}

TEST(Propagation, AnEarlierPriorityWinsWhateverItCosts) {
  const Function f = product(2);
  const Propagation found = propagate_shardings(f, {{shard(0), {}}, {shard(0), {}}});
  ASSERT_EQ(found.decisions.size(), 1u);
  const ShardingDecision& taken = found.decisions[0];
  EXPECT_EQ(taken.from, 0u) << "the batch is cut, and w is gathered";
  EXPECT_EQ(taken.priority, 0);
  ASSERT_EQ(taken.rejected.size(), 1u);
  EXPECT_TRUE(taken.rejected[0].of_later_priority);
  EXPECT_THAT(explain(f, found, f.results[0]), HasSubstr(": its priority is later"));
}

// A block as Megatron cuts it, its residual stream cut along the sequence: [batch, seq, dim].
Propagated sequence_parallel(int64_t batch, int64_t model) {
  Builder b("mlp", Mesh{{{"data", 2}, {"model", model}}});
  const int64_t seq = 64, dim = 32;
  Value x = b.parameter("x", f32({batch, seq, dim}), {{"data", shard(0)}});
  Value up = b.parameter("up", f32({dim, 4 * dim}), {{"model", shard(1)}});
  Value down = b.parameter("down", f32({4 * dim, dim}), {{"model", shard(0)}});
  const AxisPlacements along_sequence = {{"model", shard(1)}};
  x = b.shard(x, along_sequence, 1);
  Value h = gelu(dot(rms_norm(x), up));
  Value y = b.shard(x + dot(h, down), along_sequence, 1);
  std::vector<Value> grads = gradients(mean(square(y)), {up, down});
  b.result("dup", grads[0]);
  b.result("ddown", grads[1]);
  for (ValueId p : {up.id(), down.id()}) b.set_priorities(Value(&b, p), {1});
  return Propagated(b);
}

TEST(Propagation, TensorAndSequenceParallelCutsDoNotDependOnSizes) {
  for (int64_t batch : {2, 512}) {
    for (int64_t model : {2, 8}) {
      SCOPED_TRACE(cat(batch, " rows over ", model, " devices"));
      const Propagated p = sequence_parallel(batch, model);
      EXPECT_EQ(p.wanted(Op::dot, 0, 0), "{data: shard(0)}") << "the sequence is gathered";
      EXPECT_EQ(p.given(Op::dot, 0), "{data: shard(0), model: shard(2)}");
      EXPECT_EQ(p.given(Op::dot, 1), "{data: shard(0), model: partial}");
      EXPECT_EQ(p.wanted(Op::add, 1, 2), "{data: shard(0), model: shard(1)}")
          << "the product's terms are scattered over the sequence";
      EXPECT_EQ(p.given(Op::rms_norm), "{data: shard(0), model: shard(1)}");
      for (ValueId result : p.function.results) {
        const Sharding& cut = p.found.shardings[result];
        EXPECT_EQ(cut[0], partial()) << "summed over the batch";
        EXPECT_EQ(cut[1].kind, PlacementKind::kShard) << "each device has its weights' gradient";
      }
    }
  }
}

// Moments are cut, weights are not (ZeRO-1).
TEST(Propagation, AllReadersOfASumSettleItAlike) {
  Builder b("step", kMesh);
  const AxisPlacements rows = {{"data", shard(0)}};
  Value x = b.parameter("x", f32({8, 16}), rows);
  Value p = b.parameter("p", f32({16, 16}));
  Value m = b.parameter("m", f32({16, 16}), rows), v = b.parameter("v", f32({16, 16}), rows);
  b.set_priorities(m, {2});
  b.set_priorities(v, {2});
  Value one = b.parameter("one", f32());
  Value g = gradients(sum(square(dot(x, p))), {p})[0];
  b.result("norm", sum_squares(g));
  b.result("p", adamw({p, m, v}, g, {one, one, one, one}, {}).p);
  const Propagated found(b);
  EXPECT_EQ(found.wanted(Op::sum_squares, 0), "{data: shard(0)}");
  EXPECT_EQ(found.wanted(Op::adamw, 3), "{data: shard(0)}");
  EXPECT_EQ(found.given(Op::sum_squares), "{data: partial}");
}

// One gradient moves, not three states.
TEST(Propagation, AnOptimizersStatesAreNeverCutAsItsGradientIs) {
  Builder b("step", kMesh);
  Value p = b.parameter("p", f32({16, 16})), m = b.parameter("m", f32({16, 16}));
  Value v = b.parameter("v", f32({16, 16})), one = b.parameter("one", f32());
  Value g = b.shard(b.parameter("g", f32({16, 16})) * 2.0, {{"model", shard(0)}});
  AdamwState next = adamw({p, m, v}, g, {one, one, one, one}, {});
  b.result("p", next.p);
  b.result("m", next.m);
  b.result("v", next.v);
  const Propagated found(b);
  EXPECT_EQ(found.given(Op::mul), "{model: shard(0)}");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found.wanted(Op::adamw, i), "{}") << i;
}

TEST(Propagation, TermsOfSumsAreAddedBeforeTheyAreReduced) {
  Builder b("terms", kMesh);
  const AxisPlacements rows = {{"data", shard(0)}};
  Value x = b.parameter("x", f32({8, 16}), rows), y = b.parameter("y", f32({8, 16}), rows);
  Value total = sum(x, {0}) + sum(y, {0});
  b.result("y", b.shard(total, {{"data", shard(0)}}, 1));
  const Propagated p(b);
  EXPECT_EQ(p.given(Op::add), "{data: partial}");
  EXPECT_EQ(p.wanted(Op::add, 0), "{data: partial}");
  EXPECT_EQ(p.wanted(Op::constrain, 0), "{data: shard(0)}");
}

TEST(Propagation, CutOrdersTravel) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({16, 4}), {{"data", shard(0, 1)}, {"model", shard(0)}});
  b.result("y", transpose(exp(x)));
  const Propagated p(b);
  EXPECT_EQ(p.given(Op::exp), "{data: shard(0)@1, model: shard(0)}");
  EXPECT_EQ(p.given(Op::transpose), "{data: shard(1)@1, model: shard(1)}");
}

TEST(Propagation, PlacementsOfResultsDecideShardingsThatNothingElseDecides) {
  Builder b("init", kMesh);
  Value zeros = b.constant(f32({8, 16}), 0.0);
  b.result("y", zeros + 1.0);
  const Propagated p(b, {{replicate(), shard(1)}});
  EXPECT_EQ(p.given(Op::add), "{model: shard(1)}");
}

TEST(Propagation, StepsGrowWithTheGraph) {
  const auto steps = [](int nodes) {
    Builder b("chain", kMesh);
    Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
    Value y = x;
    for (int i = 0; i < nodes; ++i) y = exp(y) + x;
    b.result("y", b.shard(y, {{"model", shard(1)}}, 1));
    return Propagated(b).found.steps;
  };
  EXPECT_LT(steps(4000), 2.2 * static_cast<double>(steps(2000)));
  EXPECT_LT(steps(2000), 64 * 2000);
}

// A carry to which a body adds what a long chain of nodes gives.
TEST(Propagation, TermsOfACarryMayComeOutOfChainsOfAnyLength) {
  const auto steps = [](int nodes) {
    Builder b("sums", kMesh);
    const Value total = b.parameter("total", f32({8, 16})), x = b.parameter("x", f32({8, 16}));
    const ScanOperands operands{.length = 3, .carries = total, .invariants = x};
    const Scanned done = scan(b, operands, [&](const ScanStep& at) -> Scanned {
      Value term = at.invariants;
      for (int i = 0; i < nodes; ++i) term = neg(term);
      return {.carries = Value(at.carries) + term};
    });
    b.result("total", done.carries);
    const Propagated p(b, {{replicate(), shard(1)}});
    EXPECT_EQ(p.given(Op::scan), "{model: shard(1)}") << "no term is a sum";
    return p.found.steps;
  };
  EXPECT_LT(steps(40'000), 2.2 * static_cast<double>(steps(20'000)));
}

// One tie holds all of them together.
TEST(Propagation, StepsGrowWithTheCallsThatNameAFunction) {
  const auto steps = [](int calls) {
    Builder shared("shared", kMesh);
    Value in = shared.parameter("in", f32({8, 16}));
    shared.result("out", exp(in));
    const auto function = std::make_shared<const Function>(shared.build());
    Builder b("calls", kMesh);
    for (int i = 0; i < calls; ++i) {
      Value x = b.parameter(cat("x", i), f32({8, 16}), {{"data", shard(0)}, {"model", shard(1)}});
      b.result(cat("y", i), call(b, function, {x})[0]);
    }
    return Propagated(b).found.steps;
  };
  EXPECT_LT(steps(400), 2.2 * static_cast<double>(steps(200)));
}

}  // namespace
}  // namespace gangway::propagate_shardings_test
