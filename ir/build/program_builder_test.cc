#include "ir/build/program_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Mesh kMesh{{{"data", 4}}};

// The error that f throws, as text.
TEST(ProgramBuilder, TracesATrainingStepIntoOneCall) {
  ProgramBuilder b("train_step", kMesh, 7);
  StateTree specs;
  specs.set("w", normal(f32({16, 4}), 0.1));
  specs.set("b", zeros(f32({4})));
  Tree params = b.state("params", specs);
  Value x = b.source("x", {"text", {{"batch", int64_t{8}}}}, f32({8, 16}), {{"data", shard(0)}});
  Value lr = b.input("lr", f32());
  auto [loss, grads] = value_and_grad([](const Tree& p, Value in) {
    return mean(square(dot(in, p["w"]) + broadcast_to(p["b"], {8, 4})));
  })(params, x);
  // The optimizer's state is declared where it is needed: after ops were traced.
  Value m = b.state("m", zeros(f32({4})));
  Value m_next = m * 0.9 + grads["b"];
  b.update(m, m_next);
  b.update(params["w"], params["w"] - broadcast_to(lr, {16, 4}) * grads["w"]);
  b.update(params["b"], params["b"] - broadcast_to(lr, {4}) * m_next);
  b.output("loss", loss);
  b.require_finite("loss");
  Program p = b.build();

  ASSERT_EQ(p.nodes.size(), 7u);  // Three states, a source, an input, the call, an output.
  const ProgramNode& call = p.nodes[5];
  EXPECT_EQ(call.kind, NodeKind::kCall);
  EXPECT_EQ(call.inputs.size(), 5u);
  EXPECT_EQ(call.updates.size(), 3u);
  const Function& f = *p.functions[call.function];
  EXPECT_EQ(f.name, "train_step");
  ASSERT_EQ(f.parameters.size(), 5u);
  EXPECT_EQ(f.parameters[4].name, "m");
  EXPECT_EQ(f.types[4], f32({4}));
  EXPECT_EQ(p.find(NodeKind::kState, "params.w"), 0u);
  EXPECT_EQ(p.nodes[p.find(NodeKind::kOutput, "loss")].inputs[0].node, 5u);
  EXPECT_EQ(p.finite_output, "loss");
}

TEST(ProgramBuilder, AValueThatIsUsedAfterTheProgramIsBuiltSaysSo) {
  ProgramBuilder b("late");
  const Value w = b.state("w", zeros(f32({4})));
  b.output("sum", sum(w));
  b.build();
  for (const auto& use :
       std::vector<std::function<void()>>{[&] { sum(w * 2.0); }, [&] { b.output("again", w); },
                                          [&] { b.update(w, w); }, [&] { w.type(); }}) {
    EXPECT_THAT(error_text_of(use), testing::HasSubstr("which is already built"));
  }
}

TEST(ProgramBuilder, StatesThatBeginAlikeShareAnInitialiser) {
  ProgramBuilder b("p");
  b.state("a", zeros(f32({4})));
  b.state("b", zeros(f32({4})));
  b.state("c", normal(f32({4}), 1));
  b.state("d", normal(f32({4}), 1));  // Another name: other random numbers.
  Program p = b.build();
  EXPECT_EQ(p.nodes[0].function, p.nodes[1].function);
  EXPECT_NE(p.nodes[2].function, p.nodes[3].function);
  EXPECT_EQ(p.functions[p.nodes[0].function]->nodes.size(), 1u);  // No key that nothing uses.
}

TEST(ProgramBuilder, RandomInitialisersDependOnNameAndSeedAlone) {
  auto text = [](uint64_t seed, bool another) {
    ProgramBuilder b("p", {}, seed);
    if (another) b.state("another", normal(f32({2}), 1));
    b.state("w", normal(f32({4}), 1));
    Program p = b.build();
    Function f = *p.functions[p.nodes[p.find(NodeKind::kState, "w")].function];
    f.name = "init";
    return print(f);
  };
  EXPECT_EQ(text(1, false), text(1, true));
  EXPECT_NE(text(1, false), text(2, false));
}

TEST(ProgramBuilder, AStateCanBePlacedLikeAnother) {
  ProgramBuilder b("p", Mesh{{{"data", 2}, {"model", 2}}});
  StateTree specs;
  specs.set("w", zeros(f32({4, 4})));
  Tree params = b.state("params", specs,
                        {{"*.w", {{"model", shard(1)}}, 1}, {"*.w", {{"data", shard(0)}}, 2}});
  const std::vector<PlacementRule> like = b.like(params["w"]);
  ASSERT_EQ(like.size(), 2u);
  EXPECT_THAT(error_of([&] { b.like(params["w"] * 2.0); }).what(), HasSubstr("like: expected"));
  Value m = b.state("m", StateTree(zeros(f32({4, 4}))), like);
  b.update(m, m * 0.5);
  b.output("w", sum(params["w"]));
  const Program program = b.build();
  const auto& parameters =
      program.functions[program.nodes[program.nodes.back().inputs[0].node].function]->parameters;
  EXPECT_EQ(program.nodes[program.find(NodeKind::kState, "m")].placements,
            program.nodes[program.find(NodeKind::kState, "params.w")].placements);
  EXPECT_EQ(parameters[0].priorities, parameters[1].priorities);
  EXPECT_EQ(parameters[1].priorities, (std::vector<int>{1, 2}));
}

TEST(ProgramBuilder, PlacementRulesApplyByGlobFirstMatchWins) {
  ProgramBuilder b("p", Mesh{{{"expert", 2}}});
  StateTree specs;
  specs.set("up", zeros(f32({2, 4})));
  specs.set("gate", zeros(f32({2, 4})));
  b.state("params", specs, {{"*.up|*.down", {{"expert", shard(0)}}}, {"*", {}}});
  Program p = b.build();
  AxisPlacements cut = {{"expert", shard(0)}};
  EXPECT_EQ(p.nodes[p.find(NodeKind::kState, "params.up")].placements[0], cut);
  EXPECT_EQ(p.nodes[p.find(NodeKind::kState, "params.gate")].placements[0], AxisPlacements{});
}

TEST(ProgramBuilder, RulesOfSeveralPrioritiesAddUp) {
  ProgramBuilder b("step", Mesh{{{"data", 4}, {"model", 2}}});
  StateTree specs;
  for (const char* name : {"up", "bias"}) specs.set(name, zeros(f32({8, 8})));
  const std::vector<PlacementRule> rules = {{"*.up", {{"model", shard(1)}}, 1},
                                            {"*.bias", {}, 2},
                                            {"*", {{"data", shard(0)}}, 2},
                                            {"*.up", {{"model", shard(0)}}, 1}};
  Tree params = b.state("params", specs, rules);
  Tree placed = b.shard_all("params", params, rules, {"model.cc", 5});
  b.output("up", sum(placed["up"]));
  b.output("bias", sum(placed["bias"]));
  const Program p = b.build();
  const auto call = std::ranges::find(p.nodes, NodeKind::kCall, &ProgramNode::kind);
  ASSERT_NE(call, p.nodes.end());
  const Function& f = *p.functions[call->function];
  EXPECT_EQ(to_string(f.parameters[0].placements), "model: shard(1), data: shard(0)");
  EXPECT_EQ(f.parameters[0].priorities, (std::vector<int>{1, 2}));
  EXPECT_EQ(to_string(f.parameters[1].placements), "");
  EXPECT_EQ(f.parameters[1].priorities, std::vector<int>());
  ASSERT_EQ(f.nodes[0].op, Op::constrain);
  EXPECT_EQ(f.nodes[0].attrs.text("placements"), "model: shard(1)");
  EXPECT_EQ(f.nodes[0].attrs.integer("priority"), 1);
  EXPECT_EQ(f.nodes[1].attrs.text("placements"), "data: shard(0)");
  EXPECT_EQ(line_of(f, 1), "model.cc:5");
  EXPECT_NE(f.nodes[2].op, Op::constrain) << "the bias stays as it is";
}

TEST(ProgramBuilder, AnAnnotationThatDoesNotFitNamesItsLine) {
  ProgramBuilder b("step", kMesh);
  Value x = b.input("x", f32({8, 6}));
  const auto error = [&](const AxisPlacements& placements, int priority) {
    return std::string(error_of([&] { b.shard(x, placements, priority, {"model.cc", 9}); }).what());
  };
  EXPECT_THAT(error({{"model", shard(0)}}, 0), HasSubstr("has no axis \"model\""));
  EXPECT_THAT(error({{"model", shard(0)}}, 0), HasSubstr("at model.cc:9"));
  EXPECT_EQ(b.shard(x, {{"data", shard(1)}}).type(), x.type()) << "inside, parts may be padded";
  EXPECT_THAT(error({{"data", shard(2)}}, 0), HasSubstr("cuts dimension 2"));
  EXPECT_THAT(error({{"data", partial()}}, 0), HasSubstr("axis \"data\" is partial"));
  EXPECT_THAT(error({{"data", shard(0)}}, 16), HasSubstr("priority"));
  EXPECT_THAT(error_of([&] { b.builder().set_priorities(x, {1}, {"model.cc", 9}); }).what(),
              HasSubstr("priorities: expected one for each of 0 placements of \"x\", got 1"));
}

TEST(ProgramBuilder, ReportsEveryMistakeAtOnceWithItsLine) {
  std::string text = error_text_of([] {
    ProgramBuilder b("step", kMesh);
    Value w = b.state("w", zeros(f32({6})), {{"data", shard(0)}}, {"a.cc", 10});
    StateTree specs;
    specs.set("v", zeros(f32({4})));
    b.state("params", specs, {{"*.w", {}}}, {"a.cc", 20});
    Value x = b.input("x", f32({4}), {}, {"a.cc", 30});
    b.input("x", f32({4}), {}, {"a.cc", 40});
    b.update(x, x, {"a.cc", 50});
    b.update(w, x, {"a.cc", 60});
    b.update(w, w, {"a.cc", 70});
    b.update(w, w, {"a.cc", 80});
    b.output("x", x, {{"expert", shard(0)}}, {"a.cc", 90});
    b.require_finite("loss");
    b.build();
  });
  EXPECT_THAT(text, HasSubstr("invalid: program \"step\": 8 mistakes"));
  for (const char* expected :
       {"there is no output \"loss\" that must be finite", "1. program",
        "state \"w\": sharding: {data: shard(0)} does not cut f32[6] into equal parts over mesh "
        "{data: 4}\n  in program \"step\"\n  at a.cc:10",
        "the placement rule \"*.w\" matches no state", "input \"x\": the name is taken by node %2",
        "update: the first argument is not a state: expected what state() gave",
        "update of state \"w\": type differs: expected f32[6], got f32[4]",
        "update of state \"w\": it is updated already at a.cc:70",
        "output \"x\": sharding: mesh {data: 4} has no axis \"expert\""}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
  EXPECT_LT(text.find("a.cc:20"), text.find("a.cc:30") == std::string::npos ? text.find("a.cc:40")
                                                                            : text.find("a.cc:30"));
  EXPECT_LT(text.find("a.cc:60"), text.find("a.cc:80"));
}

TEST(ProgramBuilder, UpdatesOfATreeNameWhatIsMissing) {
  std::string text = error_text_of([] {
    ProgramBuilder b("step");
    StateTree specs;
    specs.set("a", zeros(f32()));
    specs.set("b", zeros(f32()));
    Tree params = b.state("params", specs);
    Tree next;
    next.set("a", params["a"]);
    next.set("c", params["b"]);
    b.update(params, next);
    b.build();
  });
  EXPECT_THAT(text, HasSubstr("no new value for \"b\""));
  EXPECT_THAT(text, HasSubstr("there is no state \"c\" in this tree"));
}

TEST(ProgramBuilder, ValuesOfAnotherProgramAreRefused) {
  ProgramBuilder other("other");
  Value foreign = other.input("x", f32());
  std::string text = error_text_of([&] {
    ProgramBuilder b("step");
    b.update(b.state("w", zeros(f32())), foreign);
    b.output("x", foreign);
    b.build();
  });
  EXPECT_THAT(text, HasSubstr("update of state \"w\": the new value is not of this program"));
  EXPECT_THAT(text, HasSubstr("output \"x\": the value is not of this program"));
}

TEST(ProgramBuilder, AnInitialiserMustMakeItsType) {
  std::string text = error_text_of([] {
    ProgramBuilder b("step");
    b.state("w", StateSpec{f32({4}), [](Builder& in, Value, const Type&) {
                             return in.constant(f32({3}), 0);
                           }});
  });
  EXPECT_THAT(text, HasSubstr("state \"w\": the initialiser must return a value of its builder: "
                              "expected f32[4], got f32[3]"));
}

std::shared_ptr<const Function> doubled(const std::string& name, const Mesh& mesh,
                                        AxisPlacements placements = {}) {
  Builder b(name, mesh);
  b.result("y", b.parameter("x", f32({8}), std::move(placements)) * 2.0);
  return std::make_shared<Function>(b.build());
}

TEST(ProgramBuilder, ExplicitCallsOnTwoSlicesMeetThroughATransfer) {
  ProgramBuilder b("pipeline", kMesh);
  uint32_t second = b.slice("second", Mesh{{{"data", 2}}});
  auto first_half = doubled("first", kMesh, {{"data", shard(0)}});
  auto second_half = doubled("second", Mesh{{{"data", 2}}}, {{"data", shard(0)}});
  ProgramValue x = b.input_on(0, "x", f32({8}), {{"data", shard(0)}});
  ProgramValue y = b.call(0, "first", first_half, {x})[0];
  ProgramValue moved = b.transfer(y, second);
  ProgramValue z = b.call(second, "second", second_half, {moved})[0];
  b.output_of("z", z);
  Program p = b.build();
  ASSERT_EQ(p.nodes.size(), 5u);
  EXPECT_EQ(p.nodes[2].kind, NodeKind::kTransfer);
  AxisPlacements cut = {{"data", shard(0)}};
  EXPECT_EQ(p.nodes[2].placements[0], cut);  // Its reader's placement.
  EXPECT_EQ(p.nodes[4].slice, second);
}

TEST(ProgramBuilder, OneFunctionCalledTwiceIsKeptOnce) {
  ProgramBuilder b("twice");
  auto f = doubled("f", {});
  ProgramValue x = b.input_on(0, "x", f32({8}));
  b.output_of("y", b.call(0, "b", f, b.call(0, "a", f, {x}))[0]);
  EXPECT_EQ(b.build().functions.size(), 1u);
}

TEST(ProgramBuilder, ABuilderBuildsOneProgram) {
  ProgramBuilder b("once");
  b.output("y", b.input("x", f32({8})) + 1.0);
  b.build();
  EXPECT_THAT(error_text_of([&] { b.build(); }), HasSubstr("build() was called before"));
}

TEST(ProgramBuilder, ACallAcrossSlicesWithoutATransferIsAMistake) {
  std::string text = error_text_of([] {
    ProgramBuilder b("pipeline");
    uint32_t second = b.slice("second", {});
    ProgramValue x = b.input_on(0, "x", f32({8}));
    b.call(second, "f", doubled("f", {}), {x}, {}, {"a.cc", 3});
    b.build();
  });
  EXPECT_THAT(text,
              HasSubstr("call \"f\": parameter \"x\": input \"x\" lies on slice \"main\", this "
                        "node on \"second\": a transfer must stand between"));
  EXPECT_THAT(text, HasSubstr("at a.cc:3"));
}

}  // namespace
}  // namespace gangway
