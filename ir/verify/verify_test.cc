// Every rule of functions: the words of its message, and that no garbage crashes the verifier.
#include "ir/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/types/limits.h"

namespace gangway::verify_test {
namespace {

using ::testing::HasSubstr;

// func @loss(%0 "x": f32[8, 16], %1 "w": f32[16, 4]) { %2 = dot; %3 = exp; return %3 }
Function sample() {
  Builder b("loss", Mesh{{{"data", 2}}});
  Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
  Value w = b.parameter("w", f32({16, 4}));
  b.result("y", exp(dot(x, w, {"model.cc", 14}), {"model.cc", 15}));
  return b.build();
}

std::string messages(const Function& f) {
  std::string text;
  for (const Mistake& mistake : verify(f)) {
    text += cat(mistake.message, " @", mistake.file, ":", mistake.line, "\n");
  }
  return text;
}

struct Case {
  const char* name;
  std::function<void(Function&)> spoil;
  const char* expected;
};

std::shared_ptr<Function> nested(int depth) {
  Builder b("body", Mesh{{{"data", 2}}});
  Value x = b.parameter("x", f32());
  b.result("y", exp(x));
  auto f = std::make_shared<Function>(b.build());
  if (depth == 0) return f;
  f->nodes[0] = {.op = Op::fusion, .inputs = {0}, .first_result = 1, .body = nested(depth - 1)};
  return f;
}

const Case kCases[] = {
    {"shapes", [](Function& f) { f.types[1] = f32({8, 4}); },
     "dot: "},  // The op's own text; ir/op_table/op tests check it.
    {"result type", [](Function& f) { f.types[3] = f32({8, 5}); },
     "exp: result type differs: expected f32[8, 4] from operands f32[8, 4], got f32[8, 5]\n  in "
     "function \"loss\", value %3 @model.cc:15"},
    {"operand later", [](Function& f) { f.nodes[0].inputs[1] = 3; },
     "dot: operand %3 is not defined before this node: operands come first, so there are no "
     "cycles"},
    {"own operand", [](Function& f) { f.nodes[0].inputs[0] = 2; },
     "dot: operand %2 is not defined before this node"},
    {"dangling operand", [](Function& f) { f.nodes[0].inputs[0] = 77; },
     "dot: operand %77 is not defined before this node: there is no such value"},
    {"unknown op", [](Function& f) { f.nodes[0].op = static_cast<Op>(9999); }, "unknown op 9999"},
    {"numbering", [](Function& f) { f.nodes[1].first_result = 2; },
     "exp: the first result is %2: expected %3, the next number"},
    {"count of values", [](Function& f) { f.types.pop_back(); },
     "parameters and nodes make 4 values, but there are 3 types"},
    {"count of results of a node", [](Function& f) { f.nodes[0].results = 7; },
     "parameters and nodes make 10 values"},
    {"unknown attribute", [](Function& f) { f.nodes[1].attrs.set("axis", int64_t{1}); },
     "exp: unknown attribute: axis"},
    {"missing attribute", [](Function& f) { f.nodes[0].attrs = {}; }, "dot: attribute "},
    {"wrong kind of attribute",
     [](Function& f) {
       for (const auto& [name, value] : Attrs(f.nodes[0].attrs)) f.nodes[0].attrs.set(name, true);
     },
     "is of the wrong kind: expected ints, got bool"},
    {"attribute of unknown type",
     [](Function& f) { f.nodes[0].attrs.set("a", static_cast<DType>(77)); },
     "attribute \"a\" is of unknown element type 77"},
    {"long attribute", [](Function& f) { f.nodes[0].attrs.set("a", std::string(70'000, 'x')); },
     "attribute \"a\" is too long: expected at most 65536 bytes, got 70000"},
    {"attribute not text", [](Function& f) { f.nodes[0].attrs.set("a", std::string("\xff")); },
     "attribute \"a\" is not UTF-8 text"},
    {"huge type", [](Function& f) { f.types[0] = f32({int64_t{1} << 40, 1 << 20}); },
     "is out of bounds"},
    {"unknown element type", [](Function& f) { f.types[0].dtype = static_cast<DType>(9); },
     "type (element type 9, 2 dimensions) is out of bounds"},
    {"result that does not exist", [](Function& f) { f.results[0] = 4; },
     "result %4 does not exist: there are 4 values"},
    {"same result name",
     [](Function& f) {
       f.results.push_back(2);
       f.result_names.push_back("y");
     },
     "two results are called \"y\""},
    {"count of result names", [](Function& f) { f.result_names.clear(); },
     "expected a name for each of 1 results, got 0"},
    {"empty name", [](Function& f) { f.name.clear(); }, "function: the name is empty"},
    {"long name", [](Function& f) { f.parameters[0].name.assign(2000, 'x'); },
     "parameter: the name is too long: expected at most 1024 bytes, got 2000"},
    {"mesh axis twice", [](Function& f) { f.mesh.axes.push_back({"data", 2}); },
     "mesh: two axes are called \"data\""},
    {"empty axis", [](Function& f) { f.mesh.axes[0].size = 0; }, "axis \"data\" has size 0"},
    {"huge mesh", [](Function& f) { f.mesh.axes.push_back({"x", int64_t{1} << 62}); },
     "axis \"x\" has size 4611686018427387904"},
    {"unknown axis", [](Function& f) { f.parameters[1].placements = {{"expert", shard(0)}}; },
     "parameter \"w\": sharding: mesh {data: 2} has no axis \"expert\""},
    {"partial parameter", [](Function& f) { f.parameters[1].placements = {{"data", partial()}}; },
     "axis \"data\" is partial: only results inside a function are"},
    {"cut out of range", [](Function& f) { f.parameters[1].placements = {{"data", shard(2)}}; },
     "axis \"data\" cuts dimension 2: f32[16, 4] has 2 dimensions"},
    {"negative cut", [](Function& f) { f.parameters[1].placements = {{"data", shard(-1)}}; },
     "axis \"data\" cuts dimension -1"},
    {"unknown placement",
     [](Function& f) { f.parameters[1].placements = {{"data", {static_cast<PlacementKind>(9)}}}; },
     "axis \"data\" has the unknown placement 9"},
    {"cut order out of range",
     [](Function& f) { f.parameters[1].placements = {{"data", shard(0, 16)}}; },
     "axis \"data\" cuts in the order 16: expected 0 to 15"},
    {"order of what is not cut",
     [](Function& f) { f.parameters[1].placements = {{"data", {.order = 1}}}; },
     "axis \"data\" has the cut order 1, but cuts nothing"},
    {"unknown reduction",
     [](Function& f) {
       f.shardings.assign(4, {replicate()});
       f.shardings[2] = {partial(static_cast<Reduction>(3))};
     },
     "axis \"data\" has the unknown reduction 3"},
    {"reduction of what is not partial",
     [](Function& f) { f.parameters[1].placements = {{"data", {.reduction = Reduction::kMax}}}; },
     "axis \"data\" has the reduction max, but is not partial"},
    {"partial maximum as a result",
     [](Function& f) {
       f.shardings.assign(4, {replicate()});
       f.shardings[3] = {partial(Reduction::kMax)};
     },
     "sharding: a result of a function is never partial"},
    {"count of priorities", [](Function& f) { f.parameters[0].priorities = {1, 2}; },
     "parameter \"x\": expected a priority for each of 1 placements, or none at all, got 2"},
    {"priority out of range", [](Function& f) { f.parameters[0].priorities = {16}; },
     "parameter \"x\": expected priorities from 0 to 15, or none where all are 0"},
    {"priorities without one", [](Function& f) { f.parameters[0].priorities = {0}; },
     "parameter \"x\": expected priorities from 0 to 15, or none where all are 0"},
    {"count of shardings", [](Function& f) { f.shardings = {{replicate()}}; },
     "expected a sharding for each of 4 values, or none at all, got 1"},
    {"length of a sharding",
     [](Function& f) {
       f.shardings.assign(4, {replicate()});
       f.shardings[2] = {};
     },
     "expected 1 placements, one for each axis of mesh {data: 2}, got 0"},
    {"partial result",
     [](Function& f) {
       f.shardings.assign(4, {replicate()});
       f.shardings[3] = {partial()};
     },
     "sharding: a result of a function is never partial"},
    {"region", [](Function& f) { f.nodes[0].region = 3; }, "dot: region 3 is out of range"},
    {"location parent", [](Function& f) { f.locs[1].parent = 1; },
     "locations: entry 1 has parent 1: expected a smaller one"},
    {"locations in one another",
     [](Function& f) {
       while (f.locs.size() < 300)
         f.locs.push_back({"model.cc", 1, "in", static_cast<uint32_t>(f.locs.size()) - 1});
     },
     "lies in too many others: expected at most 256"},
    {"location index", [](Function& f) { f.infos[0].loc = 99; },
     "locations: node 0 refers to entry 99 of 2"},
    {"count of infos", [](Function& f) { f.infos.pop_back(); },
     "expected one info for each of 2 nodes, got 1"},
    {"reason", [](Function& f) { f.infos[0].reason = static_cast<Reason>(44); },
     "node 0 has the unknown reason 44"},
    {"body of another op", [](Function& f) { f.nodes[1].body = nested(0); },
     "exp: it has a body, which only fusions, scans and calls do"},
    {"no body", [](Function& f) { f.nodes[1].op = Op::fusion; }, "fusion: the body is missing"},
    {"body that does not fit",
     [](Function& f) {
       f.nodes[1].op = Op::fusion;
       f.nodes[1].body = nested(0);
     },
     "fusion: operand 0 does not fit: expected f32[], got f32[8, 4]"},
    {"mistake in a body",
     [](Function& f) {
       f.nodes[1].op = Op::fusion;
       auto body = nested(0);
       body->results[0] = 9;
       f.nodes[1].body = body;
     },
     "result %9 does not exist: there are 2 values\n  in function \"body\"\n  in the body of "
     "fusion "
     "%3 of function \"loss\""},
    {"deep bodies",
     [](Function& f) {
       f.nodes[1].op = Op::fusion;
       f.nodes[1].body = nested(10);
     },
     "bodies lie too deep in one another: expected at most 8, got 11"},
    {"values that no device holds",
     [](Function& f) {
       f.local = true;
       f.types.assign(4, f64({int64_t{1} << 48}));
       for (int i = 0; i < 64; ++i) {
         f.nodes.push_back({.op = Op::exp, .inputs = {0}, .first_result = f.value_count()});
         f.types.push_back(f.types[0]);
         f.infos.emplace_back();
       }
     },
     "the values on a device are too large: expected at most 72057594037927936 bytes in all"},
    {"too many parameters", [](Function& f) { f.parameters.resize(kParametersMax + 1); },
     "too many parameters: expected at most 65536, got 65537"},
};

TEST(VerifyFunction, AcceptsWhatTheBuilderMakes) { EXPECT_EQ(messages(sample()), ""); }

TEST(VerifyFunction, SaysWhatIsWrongInWords) {
  for (const Case& c : kCases) {
    Function f = sample();
    c.spoil(f);
    EXPECT_THAT(messages(f), HasSubstr(c.expected)) << c.name;
  }
}

TEST(VerifyFunction, SurvivesEveryPairOfMistakes) {
  for (const Case& a : kCases) {
    for (const Case& b : kCases) {
      Function f = sample();
      // Only orders whose own indexing still holds.
      if (f.parameters.size() != 2) continue;
      a.spoil(f);
      if (f.locs.size() > 1 && f.infos.size() == 2 && f.types.size() == 4) b.spoil(f);
      EXPECT_NE(messages(f), "") << a.name << " and " << b.name;
    }
  }
}

TEST(VerifyFunction, ReportsAllMistakesSortedByTheUsersLine) {
  Function f = sample();
  f.types[3] = f32({1});
  f.nodes[0].attrs.set("extra", true);
  f.results.push_back(50);
  auto mistakes = verify(f);
  ASSERT_EQ(mistakes.size(), 4u);
  EXPECT_EQ(mistakes[2].line, 14);
  EXPECT_EQ(mistakes[3].line, 15);
  try {
    require_valid(f);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("function \"loss\": 4 mistakes\n1. "));
    EXPECT_THAT(error.what(), HasSubstr("\n  at model.cc:15"));
  }
}

TEST(VerifyFunction, ASharedBodyCostsOnce) {
  auto body = nested(kBodyDepthMax);
  Builder b("wide", Mesh{{{"data", 2}}});
  b.parameter("x", f32());
  Function f = b.build();
  for (ValueId id = 1; id <= 20'000; ++id) {
    f.nodes.push_back({.op = Op::fusion, .inputs = {0}, .first_result = id, .body = body});
    f.types.push_back(f32());
  }
  f.infos.resize(f.nodes.size());
  EXPECT_THAT(messages(f), HasSubstr("bodies lie too deep"));  // One more than fit.
  for (Node& node : f.nodes) node.body = body->nodes[0].body;
  EXPECT_EQ(messages(f), "");
}

// Bodies 0 ... count - 1, each naming the one before `times` times.
std::shared_ptr<const Function> tower(int count, int times) {
  std::shared_ptr<const Function> body;
  for (int i = 0; i < count; ++i) {
    Builder b("body");
    Value x = b.parameter("x", f32());
    for (int k = 0; k < times; ++k)
      x = body == nullptr ? exp(x) : b.emit(Op::call, {x}, {}, Loc::current(), body)[0];
    b.result("y", x);
    body = std::make_shared<const Function>(b.build());
  }
  return body;
}

TEST(VerifyFunction, BodiesThatNameOneAnotherTooOftenAreRefused) {
  EXPECT_EQ(messages(*tower(3, 100)), "");
  EXPECT_THAT(messages(*tower(5, 100)), HasSubstr("too many nodes: expected at most 4194304 when "
                                                  "each body counts as often as nodes name it"));
}

TEST(VerifyFunction, ABodyThatIsSharedAtSeveralDepthsIsMeasuredAtTheDeepest) {
  EXPECT_EQ(messages(*tower(kBodyDepthMax + 1, 1)), "");
  EXPECT_THAT(messages(*tower(kBodyDepthMax + 2, 1)), HasSubstr("lie too deep in one another"));
}

}  // namespace
}  // namespace gangway::verify_test
