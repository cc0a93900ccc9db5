#include "ir/transforms/rewrite/pack_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/transforms/rewrite/join_products.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::pack_attention_test {
namespace {

constexpr int64_t kBatch = 2, kSeq = 7, kDim = 4;  // 14 rows are more than 12 columns.
constexpr AttentionOptions kHeads = {.heads = 2, .causal = true};

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

int count_in_all(const Function& function, Op op) {
  BodyTable bodies;
  bodies.add(function);
  int found = count(function, op);
  for (uint32_t i = 0; i < bodies.size(); ++i) found += count(bodies[i], op);
  return found;
}

void expect_equal_results(const Function& function, const Function& made) {
  require_valid(made);
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = tests::random_arguments(random, function);
  const std::vector<Literal> expected = interpret(function, arguments);
  const std::vector<Literal> results = interpret(made, arguments);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_EQ(results[r].type, expected[r].type);
    EXPECT_THAT(results[r].values,
                ::testing::Pointwise(::testing::DoubleNear(1e-12), expected[r].values));
  }
}

// Runs the passes as compile_function() does, and removes dead nodes.
Function packed(const Function& function) {
  const auto join = [](const Function& of) { return join_products(of); };
  const Function made = pack_attention(simplify(function));
  return simplify(map_bodies(join(made), join));
}

void expect_unpacked(const Function& function) {
  const Function simple = simplify(function);
  EXPECT_EQ(print(pack_attention(simple)), print(simple));
}

using Three = std::array<Value, 3>;

// Three weights of a layer, or of a stack of `layers`.
Tree weights(Builder& b, int64_t layers = 0) {
  Tree tree;
  for (const char* name : {"q", "k", "v"}) {
    const Dims dims = layers > 0 ? Dims{layers, kDim, kDim} : Dims{kDim, kDim};
    tree.set(name, b.parameter(name, f64(dims)));
  }
  return tree;
}

Three products(Value x, const Tree& w) { return {dot(x, w["q"]), dot(x, w["k"]), dot(x, w["v"])}; }

Value attended(const Three& qkv) { return attention(qkv[0], qkv[1], qkv[2], kHeads); }

// The results of `make`, which gets x and the weights.
Function of_one_layer(const std::function<void(Builder&, Value, const Tree&)>& make) {
  Builder b("f", Mesh{{{"data", 1}}});
  const Value x = b.parameter("x", f64({kBatch, kSeq, kDim}));
  make(b, x, weights(b));
  return b.build();
}

void add_gradients(Builder& b, Value loss, Value x, const Tree& w) {
  const std::vector<Value> made = gradients(loss, {x, w["q"], w["k"], w["v"]});
  for (size_t i = 0; i < made.size(); ++i) b.result(cat("d", i), made[i]);
}

TEST(PackAttention, AProductOfJoinedWeightsIsReadAsItLies) {
  const Function function = of_one_layer(
      [](Builder& b, Value x, const Tree& w) { b.result("y", attended(products(x, w))); });
  const Function made = packed(function);
  EXPECT_EQ(made.nodes.size(), 3u);  // The joined weights, the product, attention.
  EXPECT_EQ(count(made, Op::packed_attention), 1);
  expect_equal_results(function, made);
}

TEST(PackAttention, GradientsAreOneProductEach) {
  const Function function = of_one_layer([](Builder& b, Value x, const Tree& w) {
    add_gradients(b, sum(square(attended(products(x, w)))), x, w);
  });
  const Function made = packed(function);
  EXPECT_EQ(count(made, Op::packed_attention_grad), 1);
  EXPECT_EQ(count(made, Op::dot), 3) << "forward, of x, of the weights";
  EXPECT_EQ(count(made, Op::concat), 1) << "of the weights, in both passes";
  EXPECT_EQ(count(made, Op::slice), 3) << "of the weights' gradients";
  expect_equal_results(function, made);
}

TEST(PackAttention, RematerialisedAttentionIsPackedAgain) {
  const Function function = of_one_layer([](Builder& b, Value x, const Tree& w) {
    const Value y = remat(b, [&] { return attended(products(x, w)); });
    add_gradients(b, sum(square(y)), x, w);
  });
  const Function made = packed(function);
  EXPECT_EQ(count(made, Op::packed_attention), 2);
  EXPECT_EQ(count(made, Op::packed_attention_grad), 1);
  EXPECT_EQ(count(made, Op::attention) + count(made, Op::attention_grad), 0);
  expect_equal_results(function, made);
}

// A residual stream through layers of attention.
Value through_layers(Builder& b, Value x, const Tree& w, int64_t layers) {
  return scan(b, {.length = layers, .carries = x, .stacked = w},
              [](const ScanStep& at) -> Scanned {
                const Value now = at.carries;
                return {.carries = now + attended(products(now, at.slices))};
              })
      .carries;
}

Function stack_of_layers() {
  constexpr int64_t kLayers = 3;
  Builder b("f", Mesh{{{"data", 1}}});
  const Value x = b.parameter("x", f64({kBatch, kSeq, kDim}));
  const Tree w = weights(b, kLayers);
  const Value y = through_layers(b, x, w, kLayers);
  b.result("y", y);
  add_gradients(b, sum(square(y)), x, w);
  return b.build();
}

TEST(PackAttention, AScanStacksQueriesKeysAndValuesAsOne) {
  const Function function = stack_of_layers(), made = packed(function);
  EXPECT_EQ(count_in_all(made, Op::packed_attention), 1);
  EXPECT_EQ(count_in_all(made, Op::packed_attention_grad), 1);
  EXPECT_EQ(count_in_all(made, Op::attention) + count_in_all(made, Op::attention_grad), 0);
  int stacks = 0;
  for (const Type& type : made.types) {
    stacks += type == f64({3, kBatch, kSeq, 3 * kDim});
    EXPECT_NE(type, f64({3, kBatch, kSeq, 3}));
  }
  EXPECT_EQ(stacks, 1);
  expect_equal_results(function, made);
}

TEST(PackAttention, AttentionInALoopOverMicrobatchesIsPacked) {
  constexpr int64_t kLayers = 2;
  Builder b("f", Mesh{{{"data", 1}}});
  const Value batches = b.parameter("x", f64({3, kBatch, kSeq, kDim}));
  const Tree w = weights(b, kLayers);
  Tree sums;
  for (const char* name : {"q", "k", "v"})
    sums.set(name, b.constant(f64({kLayers, kDim, kDim}), 0));
  const Tree total = scan(b, {.length = 3, .carries = sums, .invariants = w, .stacked = batches},
                          [](const ScanStep& at) -> Scanned {
                            const Value y =
                                through_layers(at.builder, at.slices, at.invariants, kLayers);
                            const Tree now = gradients(sum(square(y)), at.invariants);
                            Scanned next;
                            for (const char* name : {"q", "k", "v"})
                              next.carries.set(name, Value(at.carries[name]) + Value(now[name]));
                            return next;
                          })
                         .carries;
  for (const char* name : {"q", "k", "v"}) b.result(name, total[name]);
  const Function function = b.build(), made = packed(function);
  EXPECT_EQ(count_in_all(made, Op::packed_attention), 1);
  EXPECT_EQ(count_in_all(made, Op::packed_attention_grad), 1);
  EXPECT_EQ(count_in_all(made, Op::attention_grad), 0);
  expect_equal_results(function, made);
}

TEST(PackAttention, TwoAttentionsOfTheSameQueriesKeysAndValuesReadOneProduct) {
  const Function function = of_one_layer([](Builder& b, Value x, const Tree& w) {
    const Three qkv = products(x, w);
    b.result("causal", attended(qkv));
    b.result("all", attention(qkv[0], qkv[1], qkv[2], {.heads = 2}));
  });
  const Function made = packed(function);
  EXPECT_EQ(count(made, Op::dot), 1);
  EXPECT_EQ(count(made, Op::packed_attention), 2);
  expect_equal_results(function, made);
}

TEST(PackAttention, ProductsOfNoMoreRowsThanColumnsStay) {
  Builder b("f", Mesh{{{"data", 1}}});
  const Value x = b.parameter("x", f64({1, 3 * kDim, kDim}));
  b.result("y", attended(products(x, weights(b))));
  expect_unpacked(b.build());
}

TEST(PackAttention, ProductsThatAreReadElsewhereStay) {
  for (size_t which : {0, 1, 2}) {
    expect_unpacked(of_one_layer([&](Builder& b, Value x, const Tree& w) {
      const Three qkv = products(x, w);
      b.result("y", attended(qkv));
      b.result("too", qkv[which] * 2.0);
    }));
    expect_unpacked(of_one_layer([&](Builder& b, Value x, const Tree& w) {
      const Three qkv = products(x, w);
      b.result("y", attended(qkv));
      b.result("itself", qkv[which]);
    }));
    // Rotary embeddings do this.
    expect_unpacked(of_one_layer([&](Builder& b, Value x, const Tree& w) {
      Three qkv = products(x, w);
      qkv[which] = qkv[which] * 2.0;
      b.result("y", attended(qkv));
    }));
  }
}

TEST(PackAttention, ProductsOfSeveralTensorsStay) {
  expect_unpacked(of_one_layer([](Builder& b, Value x, const Tree& w) {
    b.result("y", attended({dot(x, w["q"]), dot(x * 2.0, w["k"]), dot(x, w["v"])}));
  }));
  expect_unpacked(of_one_layer([](Builder& b, Value x, const Tree& w) {
    const Value q = dot(x, w["q"]);
    b.result("y", attended({q, q, dot(x, w["v"])}));
  }));
}

TEST(PackAttention, AttentionToAPartOfASequenceStays) {
  expect_unpacked(of_one_layer([](Builder& b, Value x, const Tree& w) {
    const auto [q, k, v] = products(x, w);
    const Value start = b.constant(i32({}), 0);
    b.result("y",
             b.emit(Op::attention, {q, k, v, start, start},
                    {{"heads", int64_t{2}}, {"scale", 0.0}, {"causal", true}}, Loc::current())[0]);
  }));
}

TEST(PackAttention, GradientsThatAreReadElsewhereOrUnusedStay) {
  expect_unpacked(of_one_layer([](Builder& b, Value x, const Tree& w) {
    const Three qkv = products(x, w);
    const Value loss = sum(square(attended(qkv)));
    b.result("dq", gradients(loss, {qkv[0]})[0]);
  }));
  // One weight is fixed, so its gradient is not wanted.
  expect_unpacked(of_one_layer([](Builder& b, Value x, const Tree& w) {
    const Value loss = sum(square(attended(products(x, w))));
    const std::vector<Value> made = gradients(loss, {x, w["q"], w["v"]});
    for (size_t i = 0; i < made.size(); ++i) b.result(cat("d", i), made[i]);
  }));
}

// Layers that show their queries, or what only looks like the stacks of another scan.
TEST(PackAttention, StacksThatAreReadElsewhereStay) {
  constexpr int64_t kLayers = 3;
  for (const bool shown : {false, true}) {
    Builder b("f", Mesh{{{"data", 1}}});
    const Value x = b.parameter("x", f64({kBatch, kSeq, kDim}));
    const Tree w = weights(b, kLayers);
    const Scanned all =
        scan(b, {.length = kLayers, .carries = x, .stacked = w}, [](const ScanStep& at) -> Scanned {
          const Three qkv = products(at.carries, at.slices);
          Scanned next;
          next.carries = Value(at.carries) + attended(qkv);
          next.stacked.set("q", qkv[0]);
          return next;
        });
    b.result("y", all.carries);
    if (shown) b.result("q", all.stacked["q"]);
    const Function function = b.build(), made = packed(function);
    EXPECT_EQ(count_in_all(made, Op::packed_attention), shown ? 0 : 1);
    expect_equal_results(function, made);
  }
}

constexpr int64_t kStacked = 3;  // Layers.

// Layers that stack q, k and v.
Scanned stacking(Builder& b, Value x, const Tree& w) {
  return scan(b, {.length = kStacked, .carries = x, .stacked = w},
              [](const ScanStep& at) -> Scanned {
                const Three qkv = products(at.carries, at.slices);
                Scanned next;
                next.carries = Value(at.carries) + attended(qkv);
                next.stacked.set("q", qkv[0]);
                next.stacked.set("k", qkv[1]);
                next.stacked.set("v", qkv[2]);
                return next;
              });
}

// Layers that read such stacks, the last first; `swapped`: keys as queries.
Value reading(Builder& b, Value x, const Tree& stacks, bool swapped = false) {
  return scan(b, {.length = kStacked, .carries = x, .stacked = stacks, .reverse = true},
              [&](const ScanStep& at) -> Scanned {
                const Value q = at.slices["q"], k = at.slices["k"], v = at.slices["v"];
                const Value y = attended(swapped ? Three{k, q, v} : Three{q, k, v});
                return {.carries = Value(at.carries) + y};
              })
      .carries;
}

TEST(PackAttention, StacksOfALoopGoToALoopThatReadsThemAsTheyAre) {
  for (const bool swapped : {false, true}) {
    Builder b("f", Mesh{{{"data", 1}}});
    const Value x = b.parameter("x", f64({kBatch, kSeq, kDim}));
    const Scanned first = stacking(b, x, weights(b, kStacked));
    b.result("first", first.carries);
    b.result("again", reading(b, x, first.stacked, swapped));
    const Function function = b.build(), made = packed(function);
    EXPECT_EQ(count_in_all(made, Op::packed_attention), swapped ? 0 : 2);
    expect_equal_results(function, made);
  }
}

// Both loops of each kind name one body, of which there is one form: what keeps one keeps both.
TEST(PackAttention, ABodyIsPackedWhereAllLoopsThatNameItAre) {
  for (const bool shown : {false, true}) {
    Builder b("f", Mesh{{{"data", 1}}});
    const Value x = b.parameter("x", f64({kBatch, kSeq, kDim}));
    const Tree w = weights(b, kStacked);
    const Scanned first = stacking(b, x, w), second = stacking(b, first.carries, w);
    b.result("of the first", reading(b, x, first.stacked));
    b.result("of the second", reading(b, x, second.stacked));
    if (shown) b.result("k", second.stacked["k"]);
    Function function = b.build();
    std::vector<Node*> loops;
    for (Node& node : function.nodes) {
      if (node.op == Op::scan) loops.push_back(&node);
    }
    ASSERT_EQ(loops.size(), 4u);
    loops[1]->body = loops[0]->body;
    loops[3]->body = loops[2]->body;
    const Function made = packed(function);
    EXPECT_EQ(count_in_all(made, Op::packed_attention) == 0, shown);
    EXPECT_EQ(count_in_all(made, Op::attention) == 0, !shown);
    expect_equal_results(function, made);
  }
}

}  // namespace
}  // namespace gangway::pack_attention_test
