// States of stacked layers: what a program says of them, and how they begin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ranges>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/inspect/graphviz.h"
#include "ir/text/text.h"
#include "tests/interpret/interpret.h"
#include "tests/support/error_of.h"

namespace gangway::stacked_state_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh{{{"data", 2}, {"model", 2}}};

StateTree layer() {
  StateTree tree, attn;
  tree.set("norm", filled(f32({8}), 1, Loc::current()));
  attn.set("q", normal(f32({8, 6}), 0.5));
  tree.set("attn", attn);
  return tree;
}

// Placements of the last value that was sharded.
std::string placements_said(ProgramBuilder& b) {
  for (const Node& node : std::views::reverse(b.builder().function().nodes)) {
    if (node.op == Op::constrain) return node.attrs.text("placements");
  }
  return "";
}

StateTree layers(int64_t count, int64_t first = 0) {
  StateTree tree;
  tree.set("layers", stacked(layer(), count, first));
  return tree;
}

const ProgramNode& state_of(const Program& p, const char* name) {
  const uint32_t id = p.find(NodeKind::kState, name);
  if (id == kNone) throw Error(ErrorKind::kBug, cat("there is no state ", name));
  return p.nodes[id];
}

std::vector<double> first_value(const Program& p, const char* name) {
  return interpret(*p.functions[state_of(p, name).function], {})[0].values;
}

TEST(StackedState, AStackIsOneStateWithARowForEachLayer) {
  ProgramBuilder b("p", kMesh);
  const Tree params = b.state("params", layers(3, 4));
  EXPECT_EQ(params["layers"]["attn"]["q"].leaf().type(), f32({3, 8, 6}));
  const Program p = b.build();
  ASSERT_EQ(p.nodes.size(), 3u) << "two states and the call that sees them";
  const ProgramNode& q = state_of(p, "params.layers.attn.q");
  ASSERT_TRUE(q.stacked.has_value());
  EXPECT_EQ(layer_name(q.name, *q.stacked, 0), "params.layers.4.attn.q");
  EXPECT_EQ(layer_name(q.name, *q.stacked, 2), "params.layers.6.attn.q");
  const ProgramNode& norm = state_of(p, "params.layers.norm");
  EXPECT_EQ(layer_name(norm.name, *norm.stacked, 1), "params.layers.5.norm");
  EXPECT_THAT(print(p), HasSubstr("-> f32[3, 8, 6] stacked(4, 3, 2)"));
  EXPECT_THAT(to_dot(p), HasSubstr("3 layers from params.layers.4.attn.q"));
}

TEST(StackedState, ALayerThatIsOneLeafIsNumberedBehindItsName) {
  ProgramBuilder b("p");
  b.state("w", stacked(StateTree(zeros(f32({4}))), 2));
  const Program p = b.build();
  EXPECT_EQ(layer_name("w", *state_of(p, "w").stacked, 1), "w.1");
}

// Two stacks of layers that are numbered together, those of the second from `first` on.
Program two_stacks(int64_t first, const std::string& base, uint64_t seed = 0) {
  ProgramBuilder b("two stacks", kMesh, seed);
  StateTree tree;
  tree.set("layers", stacked(layer(), 2));
  tree.set("layers_from_2", stacked(layer(), 2, first, base));
  b.state("params", tree);
  return b.build();
}

TEST(StackedState, StacksOfOneBaseHoldLayersThatAreNumberedTogether) {
  constexpr uint64_t kSeed = 11;
  const Program p = two_stacks(2, "layers", kSeed);
  const ProgramNode& q = state_of(p, "params.layers_from_2.attn.q");
  EXPECT_EQ(layer_name(q.name, *q.stacked, 0), "params.layers.2.attn.q");
  EXPECT_EQ(layer_name(q.name, *q.stacked, 1), "params.layers.3.attn.q");
  EXPECT_EQ(layer_name("layers_from_2.norm", {.first = 2, .name_tail = 1, .base = "layers"}, 0),
            "layers.2.norm");
  EXPECT_THAT(print(p), HasSubstr("-> f32[2, 8, 6] stacked(2, 2, 2, \"layers\")"));
  EXPECT_TRUE(same_graph(parse_program(print(p)), p));

  ProgramBuilder one("one stack", kMesh, kSeed);
  one.state("params", layers(4));
  std::vector<double> all = first_value(p, "params.layers.attn.q");
  const std::vector<double> behind = first_value(p, "params.layers_from_2.attn.q");
  all.insert(all.end(), behind.begin(), behind.end());
  EXPECT_EQ(all, first_value(one.build(), "params.layers.attn.q")) << "they begin by their names";
}

TEST(StackedState, ALayerThatLiesInTwoStacksIsRefused) {
  EXPECT_THAT(error_text_of([] { two_stacks(1, "layers"); }),
              AllOf(HasSubstr("layer \"params.layers.1.attn.q\" lies in node %"),
                    HasSubstr("names of layers are unique")));
  two_stacks(1, "");
}

TEST(StackedState, ManyStacksOfOneBaseAreToldApart) {
  const auto stacks = [](int64_t count, int64_t last) {
    ProgramBuilder b("stacks");
    StateTree tree;
    for (int64_t i = 0; i < count; ++i) {  // Every other number: those between are put in later.
      const int64_t first = 2 * i;
      tree.set(cat("from_", first), stacked(StateTree(zeros(f32({4}))), 1, first, "layers"));
    }
    tree.set("last", stacked(StateTree(zeros(f32({4}))), 2, last, "layers"));
    b.state("params", tree);
    return b.build();
  };
  stacks(100, 200);
  for (const int64_t last : {0, 7, 98, 197, 198}) {
    EXPECT_THAT(error_text_of([&] { stacks(100, last); }),
                HasSubstr(cat("layer \"params.layers.", last + last % 2, "\" lies in node %")))
        << last;
  }
}

TEST(StackedState, AStateWithTheNameOfALayerIsRefusedWithItsLine) {
  const auto states = [](const char* name, bool is_first) {
    ProgramBuilder b("p");
    const auto plain = [&] { b.state(name, zeros(f32({8})), {}, {"train.cc", 77}); };
    if (is_first) plain();
    b.state("params", layers(3, 4));
    if (!is_first) plain();
    return b.build();
  };
  for (const bool is_first : {true, false}) {
    EXPECT_THAT(
        error_text_of([&] { states("params.layers.5.norm", is_first); }),
        AllOf(HasSubstr("state \"params.layers.5.norm\": layer 1 of the stack "
                        "\"params.layers.norm\", node %"),
              HasSubstr("names of states and layers are unique"), HasSubstr("at train.cc:77")));
    for (const char* name :
         {"params.layers.3.norm", "params.layers.7.norm", "params.layers.05.norm",
          "params.layers.5", "layers.5.norm", "params.layers.5.norm.x"})
      states(name, is_first);
  }
}

TEST(StackedState, LayersBeginAsTheStatesOfTheirNamesDo) {
  constexpr uint64_t kSeed = 11;
  ProgramBuilder unrolled("unrolled", {}, kSeed), stack("stack", {}, kSeed);
  StateTree tree;
  for (int i = 2; i < 5; ++i) tree.child("layers").set(std::to_string(i), layer());
  unrolled.state("params", tree);
  stack.state("params", layers(3, 2));
  const Program apart = unrolled.build(), together = stack.build();
  for (const char* name : {"attn.q", "norm"}) {
    std::vector<double> rows;
    for (int i = 2; i < 5; ++i) {
      const auto row = first_value(apart, cat("params.layers.", i, ".", name).c_str());
      rows.insert(rows.end(), row.begin(), row.end());
    }
    EXPECT_EQ(first_value(together, cat("params.layers.", name).c_str()), rows) << name;
  }
}

TEST(StackedState, TensorsSideBySideBeginAsTheStatesOfTheirNamesDo) {
  constexpr uint64_t kSeed = 11, kRows = 3, kColumns = 2;
  const StateSpec part = normal(f32({kRows, kColumns}), 0.5);
  StateTree apart, packed;
  for (const char* name : {"q", "k"}) apart.child("attn").set(name, part);
  packed.child("attn").set("qk", side_by_side(part, {"q", "k"}));
  for (const int64_t layers : {0, 2}) {
    const auto traced = [&](const StateTree& layer) {
      ProgramBuilder b("p", kMesh, kSeed);
      StateTree tree;
      tree.set("layers", layers > 0 ? stacked(layer, layers) : layer);
      b.state("params", tree);
      return b.build();
    };
    const Program of_parts = traced(apart), of_whole = traced(packed);
    const std::vector<double> q = first_value(of_parts, "params.layers.attn.q"),
                              k = first_value(of_parts, "params.layers.attn.k");
    std::vector<double> rows;
    for (size_t at = 0; at < q.size(); at += kColumns) {
      for (const auto* values : {&q, &k})
        rows.insert(rows.end(), values->begin() + static_cast<std::ptrdiff_t>(at),
                    values->begin() + static_cast<std::ptrdiff_t>(at + kColumns));
    }
    EXPECT_EQ(first_value(of_whole, "params.layers.attn.qk"), rows) << layers;
    EXPECT_NE(q, k);
  }
}

TEST(StackedState, OnlyTensorsWithRowsLieSideBySide) {
  EXPECT_THAT(error_text_of([] { side_by_side(zeros(f32()), {"a", "b"}); }),
              HasSubstr("expected a tensor with rows"));
  EXPECT_THAT(
      error_text_of([] { side_by_side(stacked(StateTree(zeros(f32({4}))), 2).leaf(), {"a"}); }),
      HasSubstr("and no stack"));
}

// Nodes of the initialiser of a state, that of its body included.
size_t initializer_nodes(int64_t count, const char* state) {
  ProgramBuilder b("p");
  b.state("params", layers(count));
  const Program p = b.build();
  const Function& f = *p.functions[state_of(p, state).function];
  size_t nodes = f.nodes.size();
  for (const Node& node : f.nodes) nodes += node.body != nullptr ? node.body->nodes.size() : 0;
  return nodes;
}

TEST(StackedState, AnInitialiserDoesNotGrowWithTheLayers) {
  for (const char* state : {"params.layers.attn.q", "params.layers.norm"}) {
    EXPECT_EQ(initializer_nodes(96, state), initializer_nodes(2, state)) << state;
  }
}

TEST(StackedState, RulesSpeakOfTheDimensionsOfALayer) {
  ProgramBuilder b("p", kMesh);
  const Tree params = b.state("params", layers(3),
                              {{"*.q", {{"model", shard(1)}}, 1}, {"*", {{"data", shard(0)}}, 2}});
  b.shard_all("params", params, {{"*.attn.q", {{"data", shard(0)}, {"model", shard(1)}}}});
  const AxisPlacements direct = {{"model", shard(0)}};
  b.state("one", stacked(StateTree(zeros(f32({4}))), 2).leaf(), direct);
  const Program p = b.build();
  const AxisPlacements q = {{"model", shard(2)}, {"data", shard(1)}};
  EXPECT_EQ(state_of(p, "params.layers.attn.q").placements[0], q);
  EXPECT_EQ(state_of(p, "params.layers.norm").placements[0], (AxisPlacements{{"data", shard(1)}}));
  EXPECT_EQ(state_of(p, "one").placements[0], (AxisPlacements{{"model", shard(1)}}));
  EXPECT_THAT(print(p),
              HasSubstr("constrain %1 {placements = \"data: shard(1), model: shard(2)\""));
}

// Rules that speak of a layer mean the same of a gradient, whatever its element type.
TEST(StackedState, RulesSpeakOfALayerOfGradientsOfAnyElementType) {
  ProgramBuilder b("p", kMesh);
  const Tree params = b.state("params", layers(4));
  const Value q = params["layers"]["attn"]["q"];
  const std::vector<PlacementRule> rules = {{"*.q", {{"data", shard(0)}}}};
  const auto place = [&](Value value) { b.shard_all("params.layers.attn.q", Tree(value), rules); };
  place(convert(q, DType::kBF16));
  EXPECT_EQ(placements_said(b), "data: shard(1)");
  place(sum(q, {0}));
  EXPECT_EQ(placements_said(b), "data: shard(0)") << "of one layer";
  place(transpose(q, {0, 2, 1}));
  EXPECT_THAT(
      error_text_of([&] { b.build(); }),
      HasSubstr("shard_all: \"params.layers.attn.q\": the state of that name stacks layers: "
                "expected [4, 8, 6], or of one layer [8, 6], got f32[4, 6, 8]"));
}

TEST(StackedState, AStackCanBePlacedLikeAnother) {
  ProgramBuilder b("p", kMesh);
  const Tree params = b.state("params", layers(3),
                              {{"*.q", {{"model", shard(1)}}}, {"*.norm", {{"model", shard(0)}}}});
  const Value q = params["layers"]["attn"]["q"];
  StateTree moments;
  moments.child("m").child("attn").set("q", zeros_like(b.spec_of(q)));
  b.state("moments", moments, b.like(q));
  const Program p = b.build();
  EXPECT_EQ(state_of(p, "moments.m.attn.q").placements,
            state_of(p, "params.layers.attn.q").placements);
}

TEST(StackedState, ARuleThatDoesNotFitALayerSaysSo) {
  ProgramBuilder b("p", kMesh);
  b.state("params", layers(2), {{"*.norm", {{"data", shard(1)}}}});
  const std::string message = error_text_of([&] { b.build(); });
  EXPECT_THAT(message, HasSubstr("state \"params.layers.norm\""));
  EXPECT_THAT(message, HasSubstr("f32[8]")) << "of a layer, not of the stack";
}

TEST(StackedState, MomentsStackAsTheirParametersDo) {
  ProgramBuilder b("p");
  const Tree params = b.state("params", layers(3, 1));
  const Value q = params["layers"]["attn"]["q"];
  b.state("adamw.m.layers.attn.q", zeros_like(b.spec_of(q)));
  EXPECT_THAT(error_text_of([&] { b.spec_of(q * 2.0); }), HasSubstr("this is not a state"));
  const Program p = b.build();
  const ProgramNode& m = state_of(p, "adamw.m.layers.attn.q");
  EXPECT_EQ(m.types[0], f32({3, 8, 6}));
  EXPECT_EQ(layer_name(m.name, *m.stacked, 0), "adamw.m.layers.1.attn.q");
  EXPECT_THAT(first_value(p, "adamw.m.layers.attn.q"), testing::Each(0.0));
}

TEST(StackedState, InvalidStacksAreRefused) {
  EXPECT_THAT(error_text_of([] { stacked(stacked(layer(), 2), 2); }),
              HasSubstr("is a stack of layers already"));
  ProgramBuilder b("p");
  EXPECT_THAT(error_text_of([&] { b.state("w", stacked(layer(), 0)); }),
              HasSubstr("state \"w.norm\": it stacks 0 layers: expected 1 to 2048"));
  StateSpec crooked = stacked(StateTree(zeros(f32({4}))), 2).leaf();
  crooked.type = f32({3, 4});
  EXPECT_THAT(error_text_of([&] { b.state("w", crooked); }),
              HasSubstr("it stacks 2 layers, one a row: got f32[3, 4]"));
}

}  // namespace
}  // namespace gangway::stacked_state_test
