#include "ir/transforms/rewrite/join_losses.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/verify/verify.h"
#include "runtime/base/cat.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::join_losses_test {
namespace {

using Ops = std::vector<std::string>;

Ops ops_of(const Function& function) {
  Ops ops;
  for (const Node& node : function.nodes) ops.emplace_back(to_string(node.op));
  return ops;
}

// A function with logits %0, labels %1, dloss %2 and others %3, %4, over two devices.
Function of_nodes(const std::string& nodes) {
  return parse_function(cat(R"(local func @f(%0 "logits": f64[4, 5], %1 "labels": i32[4],
  %2 "dloss": f64[4], %3 "others": f64[4, 5], %4 "other labels": i32[4]) mesh {data: 2} {)",
                            "\n", nodes, "}\n"));
}

Ops joined(const std::string& nodes) {
  const Function made = join_losses(of_nodes(nodes));
  require_valid(made);
  return ops_of(made);
}

void expect_unchanged(const std::string& nodes) {
  const Function function = of_nodes(nodes);
  EXPECT_EQ(print(join_losses(function)), print(function));
}

std::vector<Literal> arguments_of(const Function& function) {
  std::mt19937_64 random(tests::test_seed());
  std::vector<Literal> arguments = tests::random_arguments(random, function);
  for (Literal& argument : arguments) {
    if (argument.type.dtype != DType::kI32) continue;
    for (double& label : argument.values) label = static_cast<double>(random() % 5);
  }
  return arguments;
}

void expect_equal_results(const Function& function, const Function& made) {
  const std::vector<Literal> arguments = arguments_of(function);
  EXPECT_EQ(interpret(made, arguments), interpret(function, arguments));
}

TEST(JoinLosses, ALossAndItsGradientBecomeOneWhereTheLossWas) {
  const std::string nodes = R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[] = reduce_sum %5 {axes = [0]}
  %8: f64[4, 5] = cross_entropy_grad %0, %1, %6, %2
  %9: f64[4] = exp %6
  return %7 "loss", %8 "dlogits", %9 "sums"
)";
  EXPECT_EQ(joined(nodes), (Ops{"cross_entropy_and_grad", "reduce_sum", "exp"}));
  expect_equal_results(of_nodes(nodes), join_losses(of_nodes(nodes)));
}

TEST(JoinLosses, OperandsOfTheGradientAreMovedBeforeTheJoinedNode) {
  const std::string nodes = R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4] = exp %5
  %8: f64[4] = neg %2
  %9: f64[4] = tanh %5
  %10: f64[4] = mul %8, %2
  %11: f64[4, 5] = cross_entropy_grad %0, %1, %6, %10
  return %7 "exp", %8 "neg", %9 "tanh", %11 "dlogits"
)";
  EXPECT_EQ(joined(nodes), (Ops{"neg", "mul", "cross_entropy_and_grad", "exp", "tanh"}));
  expect_equal_results(of_nodes(nodes), join_losses(of_nodes(nodes)));
}

TEST(JoinLosses, ALossAloneStays) {
  expect_unchanged(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  return %5 "loss"
)");
}

TEST(JoinLosses, AGradientThatDependsOnTheLossStays) {
  for (const char* from : {"%5", "%6"}) {
    expect_unchanged(cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4] = mul )",
                         from, R"(, %2
  %8: f64[4, 5] = cross_entropy_grad %0, %1, %6, %7
  return %5 "loss", %8 "dlogits"
)"));
  }
}

TEST(JoinLosses, AGradientOfOtherLogitsOrLabelsOrOfAnotherLogsumexpStays) {
  for (const char* operands : {"%3, %1, %6", "%0, %4, %6", "%0, %1, %2", "%0, %1, %5"}) {
    expect_unchanged(cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4, 5] = cross_entropy_grad )",
                         operands, R"(, %2
  return %5 "loss", %7 "dlogits"
)"));
  }
}

TEST(JoinLosses, TheFirstOfTwoGradientsOfALossIsJoined) {
  const std::string nodes = R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4, 5] = cross_entropy_grad %0, %1, %6, %2
  %8: f64[4] = exp %2
  %9: f64[4, 5] = cross_entropy_grad %0, %1, %6, %8
  return %5 "loss", %7 "a", %9 "b"
)";
  EXPECT_EQ(joined(nodes), (Ops{"cross_entropy_and_grad", "exp", "cross_entropy_grad"}));
  expect_equal_results(of_nodes(nodes), join_losses(of_nodes(nodes)));
}

TEST(JoinLosses, EachOfTwoLossesIsJoinedButNotWhereOneWeighsTheOther) {
  const auto nodes = [](const char* first, const char* second) {
    return cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4], %8: f64[4] = cross_entropy %3, %4
  %9: f64[4] = neg %2
  %10: f64[4, 5] = cross_entropy_grad %3, %4, %8, )",
               second, R"(
  %11: f64[4, 5] = cross_entropy_grad %0, %1, %6, )",
               first, R"(
  return %5 "a", %7 "b", %9 "neg", %10 "db", %11 "da"
)");
  };
  EXPECT_EQ(joined(nodes("%2", "%9")),
            (Ops{"cross_entropy_and_grad", "neg", "cross_entropy_and_grad"}));
  expect_equal_results(of_nodes(nodes("%9", "%9")), join_losses(of_nodes(nodes("%9", "%9"))));
  EXPECT_EQ(joined(nodes("%7", "%2")),
            (Ops{"cross_entropy", "cross_entropy_and_grad", "neg", "cross_entropy_grad"}));
  expect_unchanged(nodes("%7", "%5"));
}

TEST(JoinLosses, CollectivesKeepTheirOrder) {
  const std::string sum = " {axes = \"data\", reduction = \"sum\"}\n";
  // Collectives of the loss, and of something else.
  EXPECT_EQ(joined(cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4] = all_reduce %5)",
                       sum, "  %8: f64[4, 5] = all_reduce %3", sum, R"(
  %9: f64[4, 5] = cross_entropy_grad %0, %1, %6, %2
  return %7 "loss", %8 "others", %9 "dlogits"
)")),
            (Ops{"cross_entropy_and_grad", "all_reduce", "all_reduce"}));
  // A collective of a value that the gradient needs.
  expect_unchanged(cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4] = all_reduce %2)",
                       sum, R"(
  %8: f64[4] = neg %7
  %9: f64[4, 5] = cross_entropy_grad %0, %1, %6, %8
  return %5 "loss", %9 "dlogits"
)"));
  EXPECT_EQ(joined(cat("  %5: f64[4] = all_reduce %2", sum, R"(
  %6: f64[4], %7: f64[4] = cross_entropy %0, %1
  %8: f64[4] = neg %5
  %9: f64[4, 5] = cross_entropy_grad %0, %1, %7, %8
  return %6 "loss", %9 "dlogits"
)")),
            (Ops{"all_reduce", "neg", "cross_entropy_and_grad"}));
}

TEST(JoinLosses, GradientsBehindBarriersTimedNodesAndScansStay) {
  for (const char* op : {"barrier %2", "timed %2 {microseconds = 1}"}) {
    expect_unchanged(cat(R"(
  %5: f64[4], %6: f64[4] = cross_entropy %0, %1
  %7: f64[4] = )",
                         op, R"(
  %8: f64[4, 5] = cross_entropy_grad %0, %1, %6, %7
  return %5 "loss", %8 "dlogits"
)"));
  }
  Builder b("f");
  const Value logits = b.parameter("logits", f64({4, 5})), labels = b.parameter("y", i32({4}));
  const auto losses = b.emit(Op::cross_entropy, {logits, labels}, {}, Loc::current());
  const Value weight =
      scan(b, {.length = 3, .carries = b.parameter("w", f64({4}))},
           [](const ScanStep& at) -> Scanned { return {.carries = square(Value(at.carries))}; })
          .carries;
  b.result("loss", losses[0]);
  b.result("dlogits", b.emit1(Op::cross_entropy_grad, {logits, labels, losses[1], weight}, {},
                              Loc::current()));
  const Function function = b.build();
  EXPECT_EQ(print(join_losses(function)), print(function));
}

// Losses of pieces of a batch, each with its gradient, as a loop.
TEST(JoinLosses, LossesInTheBodyOfAScanAreJoined) {
  Builder b("f");
  Tree pieces;
  pieces.set("logits", b.parameter("logits", f64({3, 4, 5})));
  pieces.set("labels", b.parameter("labels", i32({3, 4})));
  const Scanned all = scan(
      b, {.length = 3, .invariants = b.parameter("dloss", f64({4})), .stacked = pieces},
      [](const ScanStep& at) -> Scanned {
        const Value logits = at.slices["logits"], labels = at.slices["labels"];
        const auto loss = at.builder.emit(Op::cross_entropy, {logits, labels}, {}, Loc::current());
        Scanned made;
        made.stacked.set("loss", loss[0]);
        made.stacked.set("dlogits", at.builder.emit1(Op::cross_entropy_grad,
                                                     {logits, labels, loss[1], at.invariants}, {},
                                                     Loc::current()));
        return made;
      });
  b.result("loss", all.stacked["loss"]);
  b.result("dlogits", all.stacked["dlogits"]);
  const Function function = b.build();
  const Function made = map_bodies(function, join_losses);
  require_valid(made);
  EXPECT_EQ(ops_of(*made.nodes[0].body), (Ops{"cross_entropy_and_grad"}));
  expect_equal_results(function, made);
  const Compiled compiled = compile_function(function, {});
  EXPECT_EQ(ops_of(*compiled.local.function->nodes[0].body), (Ops{"cross_entropy_and_grad"}));
}

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

// The mean loss of a batch that is cut over "data".
Function classifier(bool with_gradients, bool recomputed) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f64({4, 3}), {{"data", shard(0)}});
  const Value labels = b.parameter("labels", i32({4}), {{"data", shard(0)}});
  const Value w = b.parameter("w", f64({3, 5}));
  const auto losses = [&] { return cross_entropy(dot(x, w), labels); };
  const Value loss = mean(recomputed ? remat(b, losses) : losses());
  b.result("loss", loss);
  if (with_gradients) b.result("dw", gradients(loss, {w})[0]);
  return b.build();
}

TEST(JoinLosses, AStepHasTheJoinedNodeAndAnEvaluationHasTheLossAlone) {
  const auto compiled = [](const Function& function) {
    return *compile_function(function, {}).local.function;
  };
  const Function step = compiled(classifier(true, false));
  EXPECT_EQ(count(step, Op::cross_entropy_and_grad), 1);
  EXPECT_EQ(count(step, Op::cross_entropy) + count(step, Op::cross_entropy_grad), 0);
  const Function evaluation = compiled(classifier(false, false));
  EXPECT_EQ(count(evaluation, Op::cross_entropy), 1);
  EXPECT_EQ(count(evaluation, Op::cross_entropy_and_grad), 0);
  // If the loss is computed again, the second computation gives the gradient.
  const Function again = compiled(classifier(true, true));
  EXPECT_EQ(count(again, Op::cross_entropy), 1);
  EXPECT_EQ(count(again, Op::cross_entropy_and_grad), 1);
  EXPECT_EQ(count(again, Op::cross_entropy_grad), 0);
}

}  // namespace
}  // namespace gangway::join_losses_test
