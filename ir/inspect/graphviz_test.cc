#include "ir/inspect/graphviz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Function sample() {
  Builder b("a \"quoted\" name", Mesh{{{"data", 2}}});
  Value x = b.parameter("x", f32({8}), {{"data", shard(0)}});
  Builder::Scope scope(b, "layers.0", {"model.cc", 3});
  b.result("y", pad(exp(x, {"model.cc", 4}), 0, 8, 0, -1.0 / 0.0, {"model.cc", 5}));
  return b.build();
}

TEST(Dot, ShowsOpTypeLineAndScope) {
  std::string dot = to_dot(sample());
  EXPECT_THAT(dot, HasSubstr("digraph \"a \\\"quoted\\\" name\" {"));
  EXPECT_THAT(dot, HasSubstr("label=\"layers.0\";"));
  EXPECT_THAT(dot, HasSubstr("n0 [label=\"%1 exp\\nf32[8]\\nmodel.cc:4\"];"));
  EXPECT_THAT(dot, HasSubstr("v0 -> n0;"));
  EXPECT_THAT(dot, HasSubstr("n1 -> r0;"));
}

TEST(Dot, AProgramShowsItsNodesAndFunctions) {
  ProgramBuilder b("step");
  Value w = b.state("w", zeros(f32({4})));
  b.update(w, w + 1);
  std::string dot = to_dot(b.build());
  EXPECT_THAT(dot, HasSubstr("p0 [label=\"state w\\non main\\nf32[4]"));
  EXPECT_THAT(dot, HasSubstr("p1 -> p0 [style=dashed, constraint=false];"));
  EXPECT_THAT(dot, HasSubstr("label=\"function\\nstep\";"));
  EXPECT_THAT(dot, Not(HasSubstr("init")));
}

TEST(Dot, FoldsManyNamesByTheirComponents) {
  Builder b("f");
  std::vector<Value> values;
  for (const char* name : {"params.a", "params.b", "adamw.m.a", "adamw.m.b", "adamw.v.a",
                           "adamw.v.b", "x", "lr", "step"})
    values.push_back(b.parameter(name, f32()));
  for (const Value& value : values) b.result("y", value + value);
  const std::string dot = to_dot(b.build());
  EXPECT_THAT(dot, HasSubstr("v0 [label=\"params.*\\n2 values\", shape=ellipse];"));
  EXPECT_THAT(dot, HasSubstr("v4 [label=\"adamw.v.*\\n2 values\", shape=ellipse];"));
  EXPECT_THAT(dot, HasSubstr("v6 [label=\"x\\nf32[]\", shape=ellipse];"));
  EXPECT_THAT(dot, HasSubstr("  v4 -> n5;\n"));
  EXPECT_THAT(dot, Not(HasSubstr("v5")));
}

TEST(Dot, CutsLongLinesAtTheEndOfACharacter) {
  Builder b("f");
  b.result("y", exp(b.parameter(std::string(44, 'a') + "\u00e9\u00e9\u00e9", f32())));
  EXPECT_THAT(to_dot(b.build()), HasSubstr("v0 [label=\"" + std::string(44, 'a') + "...\\n"));
}

TEST(Json, TheJsonOfAFunctionHoldsItsWholeGraph) {
  json graph = json::parse(to_json(sample()));
  EXPECT_EQ(graph["name"], "a \"quoted\" name");
  EXPECT_EQ(graph["parameters"][0]["placements"]["data"], "shard(0)");
  EXPECT_EQ(graph["nodes"][0]["op"], "exp");
  EXPECT_EQ(graph["nodes"][0]["line"], "model.cc:4");
  EXPECT_EQ(graph["nodes"][0]["where"], "model.cc:4 in layers.0");
  EXPECT_EQ(graph["nodes"][0]["results"][0]["type"], "f32[8]");
  EXPECT_EQ(graph["nodes"][1]["attrs"]["value"], "-inf");
  EXPECT_EQ(graph["results"][0]["name"], "y");
}

TEST(Json, NamesBodiesThatNodesShareByNumber) {
  Builder inner("layer"), b("f");
  inner.result("y", exp(inner.parameter("x", f32({8}))));
  const auto layer = std::make_shared<const Function>(inner.build());
  const Value x = b.parameter("x", f32({8}));
  b.result("y", call(b, layer, call(b, layer, {x}))[0]);
  const Function f = b.build();
  EXPECT_THAT(to_dot(f), HasSubstr("label=\"body: 2 calls\\nlayer\""));
  json graph = json::parse(to_json(f));
  EXPECT_EQ(graph["nodes"][0]["body"], 0);
  EXPECT_EQ(graph["nodes"][1]["body"], 0);
  ASSERT_EQ(graph["bodies"].size(), 1u);
  EXPECT_EQ(graph["bodies"][0]["name"], "layer");
}

TEST(Json, TheJsonOfEveryGraphIsWellFormed) {
  tests::Random random(tests::test_seed());
  for (int round = 0; round < 50; ++round) {
    Function f = tests::random_function(random, Mesh{{{"data", 2}}});
    EXPECT_EQ(json::parse(to_json(f))["nodes"].size(), f.nodes.size());
    Program p = tests::random_program(random);
    json graph = json::parse(to_json(p));
    EXPECT_EQ(graph["nodes"].size(), p.nodes.size());
    EXPECT_EQ(graph["functions"].size(), p.functions.size());
    EXPECT_EQ(graph["name"], p.name);
  }
}

}  // namespace
}  // namespace gangway
