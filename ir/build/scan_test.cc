// scan and call: what they mean, their gradients, and what is left of them.
#include "ir/build/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/scan_model.h"
#include "tests/support/seed.h"

namespace gangway::scan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::random_arguments;
using tests::scan_model_function;
using tests::ScanModel;

constexpr auto kUnrolled = ScanModel::Form::kUnrolled;

const Node& only(const Function& function, Op op) {
  const Node* found = nullptr;
  for (const Node& node : function.nodes) {
    if (node.op != op) continue;
    EXPECT_EQ(found, nullptr) << "two nodes of " << to_string(op) << "\n" << print(function);
    found = &node;
  }
  EXPECT_NE(found, nullptr) << "no " << to_string(op) << "\n" << print(function);
  return *found;
}

const Node& nth(const Function& function, Op op, int n) {
  for (const Node& node : function.nodes) {
    if (node.op == op && n-- == 0) return node;
  }
  throw Error(ErrorKind::kBug, print(function));
}

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

void expect_same_results(const Function& a, const Function& b) {
  std::mt19937_64 random(tests::test_seed());
  const std::vector<Literal> arguments = random_arguments(random, a);
  EXPECT_TRUE(verify(a).empty()) << print(a);
  EXPECT_EQ(interpret(a, arguments), interpret(b, arguments)) << print(a) << print(b);
}

TEST(Scan, GivesWhatItsBodyUnrolledGivesWithTheSameGradients) {
  for (bool reverse : {false, true}) {
    for (bool remat : {false, true}) {
      SCOPED_TRACE(cat("reverse ", reverse, ", remat ", remat));
      const Function scanned = scan_model_function({.remat = remat, .reverse = reverse});
      expect_same_results(scanned, scan_model_function({.form = kUnrolled, .reverse = reverse}));
      expect_same_results(simplify(scanned), scanned);
    }
  }
}

TEST(Scan, AScanOfNoIterationsGivesItsCarriesAndTheirCotangents) {
  Builder b("f");
  const Value x = b.parameter("x", f64({3})), w = b.parameter("w", f64({0, 3}));
  const Value y =
      scan(b, {.length = 0, .carries = x, .stacked = w}, [](const ScanStep& at) -> Scanned {
        return {.carries = at.carries * at.slices};
      }).carries;
  b.result("y", y);
  for (const Value& g : gradients(sum(square(y)), {x, w})) b.result(cat("g", g.id()), g);
  const auto results = interpret(b.build(), {{f64({3}), {1, 2, 3}}, Literal{f64({0, 3}), {}}});
  EXPECT_THAT(results[0].values, ElementsAre(1, 2, 3));
  EXPECT_THAT(results[1].values, ElementsAre(2, 4, 6));
  EXPECT_EQ(results[2].type, f64({0, 3}));
}

TEST(Scan, GradientsEqualFiniteDifferences) {
  const Function f = scan_model_function({.layers = 2, .remat = true});
  std::mt19937_64 random(tests::test_seed());
  std::vector<Literal> in = random_arguments(random, f);
  const std::vector<Literal> at = interpret(f, in);
  constexpr double kStep = 1e-5;
  for (size_t p = 0; p < in.size(); ++p) {
    for (size_t i = 0; i < in[p].values.size(); ++i) {
      const double value = in[p].values[i];
      in[p].values[i] = value + kStep;
      const double high = interpret(f, in)[2].values[0];
      in[p].values[i] = value - kStep;
      const double low = interpret(f, in)[2].values[0];
      in[p].values[i] = value;
      EXPECT_NEAR(at[3 + p].values[i], (high - low) / (2 * kStep), 1e-7) << p << " " << i;
    }
  }
}

TEST(Scan, ResidualsThatNoGradientReadsAreNotKept) {
  const Function traced = scan_model_function({.gradients = false});
  EXPECT_GT(only(traced, Op::scan).results, 2u) << "traced for a gradient that may come";
  const Function f = simplify(traced);
  EXPECT_EQ(only(f, Op::scan).results, 2u);
  EXPECT_EQ(only(f, Op::scan).body->results.size(), 2u);
  expect_same_results(f, traced);
}

TEST(Scan, RematerialisationKeepsTheCarriesAlone) {
  const Function f = simplify(scan_model_function({.remat = true}));
  const Node& forward = nth(f, Op::scan, 0);
  EXPECT_EQ(forward.results, 3u) << "y, terms, and x of each iteration";
  EXPECT_EQ(f.types[forward.first_result + 2], f64({3, 2, 4}));
  const Node& backward = nth(f, Op::scan, 1);
  EXPECT_EQ(count(*backward.body, Op::tanh), 1) << "computed again in each iteration";
  const Function kept = simplify(scan_model_function({}));
  EXPECT_EQ(count(*nth(kept, Op::scan, 1).body, Op::tanh), 0);
}

TEST(Scan, ValuesOfInvariantsAloneStayInTheBodyAndAreComputedAgain) {
  Builder b("f");
  const Value x = b.parameter("x", f64({2})), w = b.parameter("w", f64({2}));
  const Value y =
      scan(b, {.length = 3, .carries = x, .invariants = w}, [](const ScanStep& at) -> Scanned {
        return {.carries = at.carries * exp(Value(at.invariants))};
      }).carries;
  b.result("g", gradients(sum(y), {w})[0]);
  const Function f = simplify(b.build());
  EXPECT_EQ(count(f, Op::exp), 0);
  EXPECT_EQ(count(*nth(f, Op::scan, 0).body, Op::exp), 1);
  EXPECT_EQ(count(*nth(f, Op::scan, 1).body, Op::exp), 1);
  EXPECT_EQ(nth(f, Op::scan, 0).results, 2u) << "the carry, and x as each iteration found it";
}

TEST(Scan, UnreadCarriesAndStacksAreRemovedWithTheirOperands) {
  Builder b("f");
  Tree carries;
  for (const char* name : {"read", "fed", "dead"}) carries.set(name, b.parameter(name, f32({2})));
  const Value w = b.parameter("w", f32({3, 2}));
  const Scanned done =
      scan(b, {.length = 3, .carries = carries, .stacked = w}, [](const ScanStep& at) -> Scanned {
        Tree next;
        next.set("read", at.carries["read"] + at.carries["fed"]);
        next.set("fed", at.carries["fed"] * 2);
        next.set("dead", at.carries["dead"] * at.slices);
        return {.carries = next, .stacked = at.carries["dead"]};
      });
  b.result("y", done.carries["read"]);
  const Function before = b.build(), f = simplify(before);
  const Node& node = only(f, Op::scan);
  EXPECT_EQ(node.inputs, (std::vector<ValueId>{0, 1}));
  EXPECT_EQ(node.results, 2u);
  EXPECT_EQ(node.body->parameters.size(), 2u);
  expect_same_results(f, before);
}

TEST(Scan, ACarryThatChangesItsTypeIsRefusedWithBothTypesAndTheUsersLine) {
  Builder b("f");
  const Value x = b.parameter("x", f32({4}));
  try {
    scan(b, {.length = 2, .carries = x}, [](const ScanStep& at) -> Scanned {
      return {.carries = convert(at.carries, DType::kBF16)};
    });
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("scan: carry changes its type: it enters an iteration as "
                                        "f32[4] and leaves it as bf16[4]"));
    EXPECT_THAT(error.what(), HasSubstr("scan_test.cc:"));
  }
}

template <class Body>
std::string refusal(Builder& b, const ScanOperands& operands, const Body& body) {
  try {
    scan(b, operands, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Scan, ABodyMayGiveItsCarriesInAnyOrder) {
  Function functions[2];
  for (const bool is_swapped : {false, true}) {
    Builder b("f");
    Tree carries;
    carries.set("h", b.parameter("h", f32({4})));
    carries.set("c", b.parameter("c", f32({4})));
    const auto body = [&](const ScanStep& at) -> Scanned {
      const Value h = at.carries["h"] + 1.0, c = at.carries["c"] * 2.0;
      Tree next;
      if (is_swapped) next.set("c", c);
      next.set("h", h);
      next.set("c", c);
      return {.carries = next};
    };
    const Tree last = scan(b, {.length = 2, .carries = carries}, body).carries;
    b.result("h", last["h"]);
    b.result("c", last["c"]);
    functions[is_swapped] = b.build();
  }
  EXPECT_EQ(print(functions[0]), print(functions[1]));
}

TEST(Scan, OperandsAndBodiesThatDoNotFitAreRefused) {
  Builder b("f");
  const Value x = b.parameter("x", f32({4}));
  const auto same = [](const ScanStep& at) -> Scanned { return {.carries = at.carries}; };
  EXPECT_THAT(refusal(b, {.length = 2, .stacked = x}, same),
              HasSubstr("must have a row for each of 2 iterations: got f32[4]"));
  EXPECT_THAT(refusal(b, {.length = 2, .carries = Value()}, same), HasSubstr("empty value"));
  EXPECT_THAT(refusal(b, {.length = -1, .carries = x}, same), HasSubstr("length is out of range"));
  EXPECT_THAT(
      refusal(b, {.length = 2, .carries = x}, [](const ScanStep&) -> Scanned { return {}; }),
      HasSubstr("the body gives no carry"));
  EXPECT_THAT(refusal(b, {.length = 2, .carries = x},
                      [&](const ScanStep&) -> Scanned { return {.carries = x}; }),
              HasSubstr("belongs to another function"));
}

TEST(Scan, AnOpWithoutGradientIsNamedWithItsLineOnlyWhereOneIsWanted) {
  const auto traced = [](bool wanted) {
    Builder b("f");
    const Value x = b.parameter("x", f32({4})), y = b.parameter("y", f32({4}));
    Tree carries;
    carries.set("x", x);
    carries.set("y", y);
    const Tree last = scan(b, {.length = 2, .carries = carries}, [](const ScanStep& at) -> Scanned {
                        Tree next;
                        const Value z = at.carries["y"], one = at.builder.constant(f32(), 1);
                        const AdamwState moved = adamw({z, z, z}, z, {one, one, one, one}, {});
                        next.set("x", at.carries["x"] + moved.p);
                        next.set("y", at.carries["y"] * 2);
                        return {.carries = next};
                      }).carries;
    return gradients(sum(last["x"]), {wanted ? y : x}).size();
  };
  EXPECT_EQ(traced(false), 1u);
  try {
    traced(true);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("adamw has no gradient"));
    EXPECT_THAT(error.what(), HasSubstr("scan_test.cc:"));
  }
}

// Tracing a scan looks for what a gradient would read, also in the scans inside it.
TEST(Scan, AnOpWithoutGradientInAScanInsideAScanIsNamedWithItsLineOnlyWhereOneIsWanted) {
  Builder b("f");
  const Value x = b.parameter("x", f32({4}));
  const auto step = [](const ScanStep& at) -> Scanned {
    const Value z = at.carries, one = at.builder.constant(f32(), 1);
    return {.carries = adamw({z, z, z}, z, {one, one, one, one}, {}).p};
  };
  const Value last =
      scan(b, {.length = 3, .carries = x}, [&](const ScanStep& at) -> Scanned {
        return {.carries = scan(at.builder, {.length = 2, .carries = at.carries}, step).carries};
      }).carries;
  EXPECT_EQ(last.type(), f32({4}));
  try {
    gradients(sum(last), {x});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("adamw has no gradient"));
    EXPECT_THAT(error.what(), HasSubstr("scan_test.cc:"));
  }
}

// A function that holds a scan and its gradient is called: nobody wants a gradient of that one.
TEST(Call, ACallOfAFunctionThatHoldsAnAdjointNeedsNoGradientOfIt) {
  Builder step("step");
  const Value w = step.parameter("w", f64({4}));
  const Value loss = sum(Value(scan(step, {.length = 2, .carries = w}, [](const ScanStep& at) {
                                 return Scanned{.carries = tanh(at.carries)};
                               }).carries));
  step.result("loss", loss);
  step.result("dw", gradients(loss, {w})[0]);
  Builder b("f");
  const Value v = b.parameter("v", f64({4}));
  const auto results = call(b, std::make_shared<const Function>(step.build()), {v});
  b.result("dw", results[1]);
  EXPECT_EQ(b.build().results.size(), 1u);
}

// A sum over rows of rows, by scans inside a scan or by a plain reduction.
Function nested(bool scans) {
  Builder b("f");
  const Value x = b.parameter("x", f64({3, 2, 4})), s = b.parameter("s", f64({4}));
  const auto term = [](Value a, Value row) { return a * 0.5 + tanh(row * a); };
  const auto inner = [&](Builder& at, Value a, Value rows) -> Value {
    if (!scans) {
      for (int64_t i = 0; i < 2; ++i) a = term(a, tests::scan_model::row(rows, i));
      return a;
    }
    return scan(at, {.length = 2, .carries = a, .stacked = rows},
                [&](const ScanStep& step) -> Scanned {
                  return {.carries = term(step.carries, step.slices)};
                })
        .carries;
  };
  Value y = s;
  if (scans) {
    y = scan(b, {.length = 3, .carries = s, .stacked = x}, [&](const ScanStep& step) -> Scanned {
          return {.carries = inner(step.builder, step.carries, step.slices)};
        }).carries;
  } else {
    for (int64_t i = 0; i < 3; ++i) y = inner(b, y, tests::scan_model::row(x, i));
  }
  b.result("y", y);
  for (const Value& g : gradients(sum(y), {x, s})) b.result(cat("g", g.id()), g);
  return b.build();
}

TEST(Scan, AScanInsideAScanIsDifferentiatedToo) {
  const Function f = nested(true);
  EXPECT_EQ(f.results.size(), 3u);
  Function unrolled = nested(false);
  expect_same_results(simplify(f), unrolled);
}

TEST(Scan, ABodyMayComputeGradientsItself) {
  Builder b("f");
  const Value w = b.parameter("w", f64({4})), x = b.parameter("x", f64({3, 4}));
  const Value total =
      scan(b, {.length = 3, .carries = b.constant(f64({4}), 0), .invariants = w, .stacked = x},
           [](const ScanStep& at) -> Scanned {
             const Value weights = at.invariants;
             const Value loss = sum(tanh(weights * at.slices));
             return {.carries = at.carries + gradients(loss, {weights})[0]};
           })
          .carries;
  b.result("total", total);
  b.result("whole", gradients(sum(tanh(broadcast_to(w, {3, 4}) * x)), {w})[0]);
  const Function f = simplify(b.build());
  std::mt19937_64 random(tests::test_seed());
  const auto results = interpret(f, random_arguments(random, f));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(results[0].values[i], results[1].values[i], 1e-14);
}

TEST(Scan, AGraphDoesNotGrowWithItsLength) {
  const Function small = simplify(scan_model_function({.layers = 12}));
  const Function large = simplify(scan_model_function({.layers = 96}));
  EXPECT_EQ(small.nodes.size(), large.nodes.size());
  BodyTable bodies;
  bodies.add(large);
  EXPECT_EQ(bodies.size(), 2u) << "one forward, one backward";
  EXPECT_LT(to_wire(large).size(), to_wire(small).size() + 100);
}

TEST(Call, GivesWhatItsFunctionGivesAndWritesItOnce) {
  Builder layer("layer");
  const Value a = layer.parameter("x", f64({2, 4})), w = layer.parameter("w", f64({4, 4}));
  layer.result("y", tanh(dot(a, w)));
  const auto function = std::make_shared<const Function>(layer.build());
  const auto model = [&](bool calls) {
    Builder b("model");
    const Value x = b.parameter("x", f64({2, 4})), weights = b.parameter("w", f64({4, 4}));
    Value y = x;
    for (int i = 0; i < 5; ++i)
      y = calls ? call(b, function, {y, weights})[0] : tanh(dot(y, weights));
    b.result("y", y);
    for (const Value& g : gradients(sum(square(y)), {x, weights})) b.result(cat("g", g.id()), g);
    return b.build();
  };
  const Function f = simplify(model(true));
  expect_same_results(f, model(false));
  BodyTable bodies;
  bodies.add(f);
  EXPECT_LE(bodies.size(), 3u) << "forward, and backward with and without x's cotangent";
  EXPECT_EQ(count(f, Op::call), 10);
  const std::string text = print(f, {.locations = false});
  EXPECT_TRUE(same_graph(parse_function(text), f)) << text;
}

TEST(Call, ACallWithAnotherMeshOrOtherTypesIsRefusedWithTheUsersLine) {
  Builder inner("inner", Mesh{{{"data", 2}}});
  inner.result("y", exp(inner.parameter("x", f32({2}))));
  const auto function = std::make_shared<const Function>(inner.build());
  Builder b("f"), c("g", Mesh{{{"data", 2}}});
  const auto refused = [&](Builder& builder, Type type) -> std::string {
    try {
      call(builder, function, {builder.parameter("x", std::move(type))});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused(b, f32({2})), HasSubstr("is over mesh {data: 2}: expected {}"));
  EXPECT_THAT(refused(c, f32({3})), HasSubstr("parameter \"x\" of the body is f32[2], got f32[3]"));
  EXPECT_THAT(refused(c, f32({3})), HasSubstr("scan_test.cc:"));
}

}  // namespace
}  // namespace gangway::scan_test
