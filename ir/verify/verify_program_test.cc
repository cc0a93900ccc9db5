// Every rule of programs: the words of its message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/verify/verify.h"

namespace gangway::verify_program_test {
namespace {

using ::testing::HasSubstr;

// %0 state "w", %1 input "x", %2 call "main", %3 output "loss", %4 transfer, %5 source.
Program sample() {
  ProgramBuilder b("step", Mesh{{{"data", 2}}});
  uint32_t other = b.slice("other", Mesh{{{"data", 2}}});
  Value w = b.state("w", zeros(f32({8})), {{"data", shard(0)}}, {"train.cc", 10});
  Value x = b.input("x", f32({8}), {{"data", shard(0)}}, {"train.cc", 11});
  b.update(w, w + x, {"train.cc", 12});
  b.output("loss", sum(x), {}, {"train.cc", 13});
  b.require_finite("loss");
  Program p = b.build();
  p.nodes.push_back({.kind = NodeKind::kTransfer,
                     .name = "x",
                     .slice = other,
                     .inputs = {{.node = 1}},
                     .types = {f32({8})},
                     .placements = {{}},
                     .loc = {.file = "train.cc", .line = 14}});
  p.nodes.push_back({.kind = NodeKind::kSource,
                     .name = "tokens",
                     .types = {i32({8})},
                     .placements = {{}},
                     .attrs = {{"kind", std::string("text")}}});
  return p;
}

std::string messages(const Program& p) {
  std::string text;
  for (const Mistake& mistake : verify(p)) {
    text += cat(mistake.message, " @", mistake.file, ":", mistake.line, " ",
                to_string(mistake.kind), "\n");
  }
  return text;
}

// Another version of the function of node 2.
void respell(Program& p, const std::function<void(Function&)>& spoil) {
  auto& slot = p.functions[p.nodes[2].function];
  auto f = std::make_shared<Function>(*slot);
  spoil(*f);
  slot = f;
}

struct Case {
  const char* name;
  std::function<void(Program&)> spoil;
  const char* expected;
};

const Case kCases[] = {
    {"cycle", [](Program& p) { p.nodes[2].inputs[0].node = 3; },
     "call \"main\": operand %3 is not defined before this node: operands come first, so there are "
     "no "
     "cycles\n  in program \"step\", node %2"},
    {"dangling", [](Program& p) { p.nodes[2].inputs[0].node = 99; },
     "operand %99 is not defined before this node: there is no such node"},
    {"no such result", [](Program& p) { p.nodes[3].inputs[0].result = 7; },
     "output \"loss\": operand %2.7 does not exist: node %2 has 2 results"},
    {"edge type", [](Program& p) { p.nodes[1].types[0] = f32({16}); },
     "call \"main\": parameter \"x\": type differs: expected f32[8], got f32[16] from input \"x\""},
    {"edge sharding", [](Program& p) { p.nodes[1].placements[0] = {}; },
     "call \"main\": parameter \"x\": sharding differs: expected {data: shard(0)}, got {} from "
     "input \"x\""},
    {"edge slice", [](Program& p) { p.nodes[2].inputs[1] = {.node = 4}, p.nodes[2].slice = 0; },
     "operand %4 is not defined before this node"},
    {"transfer in place", [](Program& p) { p.nodes[4].slice = 0; },
     "transfer \"x\": the operand is on slice \"main\" already"},
    {"transfer type", [](Program& p) { p.nodes[4].types[0] = i32({8}); },
     "transfer \"x\": type differs: expected f32[8] as node %1, got i32[8]"},
    {"slice", [](Program& p) { p.nodes[1].slice = 9; },
     "input \"x\": slice 9 does not exist: there are 2"},
    {"mesh of a slice", [](Program& p) { p.slices[0].mesh.axes[0].size = 4; },
     "state \"w\": function \"init.0\" is over mesh {data: 2}, but slice \"main\" is over {data: "
     "4}"},
    {"slices of one name", [](Program& p) { p.slices[1].name = "main"; },
     "two slices are called \"main\""},
    {"functions of one name",
     [](Program& p) { respell(p, [&p](Function& f) { f.name = p.functions[0]->name; }); },
     "two functions are called \"init.0\""},
    {"missing function", [](Program& p) { p.functions[0] = nullptr; }, "a function is missing"},
    {"function index", [](Program& p) { p.nodes[0].function = 50; },
     "state \"w\": function 50 does not exist"},
    {"no function", [](Program& p) { p.nodes[0].function = kNone; },
     "state \"w\": the function is missing"},
    {"stack of an input", [](Program& p) { p.nodes[1].stacked = {0, 8, 0}; },
     "input \"x\": only states are stacked"},
    {"rows of a stack", [](Program& p) { p.nodes[0].stacked = {0, 4, 0}; },
     "state \"w\": stacks 4 layers, one a row: got f32[8]"},
    {"numbers of a stack", [](Program& p) { p.nodes[0].stacked = {-1, 8, 0}; },
     "state \"w\": layers -1 and the following 8 can't be numbered: expected 1 to 16777216 of "
     "them"},
    {"name of a stack", [](Program& p) { p.nodes[0].stacked = {0, 8, 1}; },
     "state \"w\": the numbers of layers can't stand in front of the last 1 components of a name "
     "that has 1"},
    {"function of an input", [](Program& p) { p.nodes[1].function = 0; },
     "input \"x\": only states and calls have a function"},
    {"local function", [](Program& p) { respell(p, [](Function& f) { f.local = true; }); },
     "function \"step\" is local, already partitioned"},
    {"mistake in a function",
     [](Program& p) { respell(p, [](Function& f) { f.results[0] = 99; }); },
     "result %99 does not exist: there are 4 values\n  in function \"step\""},
    {"count of operands", [](Program& p) { p.nodes[2].inputs.pop_back(); },
     "call \"main\": function \"step\" has 2 parameters, got 1 operands"},
    {"count of results",
     [](Program& p) {
       respell(p, [](Function& f) {
         f.results.pop_back();
         f.result_names.pop_back();
       });
     },
     "call \"main\": function \"step\" has 1 results, the call 2"},
    {"type of a result", [](Program& p) { p.nodes[2].types[0] = f32({2}); },
     "of function \"step\" is f32[8], the call says f32[2]"},
    {"initialiser with parameters", [](Program& p) { p.nodes[0].function = p.nodes[2].function; },
     "state \"w\": the initialiser \"step\" must have no parameters and one result: got 2 and 2"},
    {"initialiser of another type", [](Program& p) { p.nodes[0].types[0] = f32({4}); },
     "state \"w\": the initialiser \"init.0\" makes f32[8]: expected f32[4]"},
    {"name taken", [](Program& p) { p.nodes[5].kind = NodeKind::kInput, p.nodes[5].name = "x"; },
     "input \"x\": the name is taken by node %1: names are unique among nodes of one kind"},
    {"no name", [](Program& p) { p.nodes[1].name.clear(); }, "input: the name is empty"},
    {"updated twice", [](Program& p) { p.nodes[2].updates.push_back({0, 0}); },
     "state \"w\" is updated twice in one run"},
    {"update of an input", [](Program& p) { p.nodes[2].updates[0].state = 1; },
     "updates node %1: expected a state defined before this node"},
    {"update by no result", [](Program& p) { p.nodes[2].updates[0].result = 9; },
     "updates a state by result 9 of 2"},
    {"update of another type", [](Program& p) { p.nodes[2].updates[0].result = 1; },
     "the update of state \"w\" has another type: expected f32[8], got f32[]"},
    {"update of another sharding", [](Program& p) { p.nodes[2].placements[0] = {}; },
     "the update of state \"w\" has another sharding: expected {data: shard(0)}, got {}"},
    {"update on an input", [](Program& p) { p.nodes[1].updates.push_back({0, 0}); },
     "input \"x\": only calls update states"},
    {"attributes of an input", [](Program& p) { p.nodes[1].attrs.set("a", true); },
     "input \"x\": only sources have attributes"},
    {"source without kind", [](Program& p) { p.nodes[5].attrs = {}; },
     "source \"tokens\": the attribute \"kind\", a string, is missing"},
    {"operands of an input", [](Program& p) { p.nodes[1].inputs = {{.node = 0}}; },
     "input \"x\": expected 0 operands, got 1"},
    {"output without operand", [](Program& p) { p.nodes[3].inputs.clear(); },
     "output \"loss\": expected 1 operands, got 0"},
    {"placements", [](Program& p) { p.nodes[1].placements.clear(); },
     "expected placements for each of 1 results, got 0"},
    {"finite output", [](Program& p) { p.finite_output = "accuracy"; },
     "there is no output \"accuracy\" that must be finite"},
    {"unknown kind", [](Program& p) { p.nodes[1].kind = static_cast<NodeKind>(77); },
     "node %1 is of unknown kind 77"},
    {"unknown firing", [](Program& p) { p.nodes[1].firing.kind = static_cast<FiringKind>(77); },
     "unknown firing rule 77"},
    {"huge line", [](Program& p) { p.nodes[1].loc.line = -5; }, "node %1 has a malformed location"},
};

const Case kReserved[] = {
    {"if", [](Program& p) { p.nodes[5].kind = NodeKind::kIf; },
     "if \"tokens\": this kind of node is reserved: this version cannot run it"},
    {"while", [](Program& p) { p.nodes[5].kind = NodeKind::kWhile; },
     "this kind of node is reserved"},
    {"any", [](Program& p) { p.nodes[2].firing.kind = FiringKind::kAny; },
     "call \"main\": the firing rule \"any\" is reserved for asynchronous training: expected "
     "\"all\""},
    {"bounded", [](Program& p) { p.nodes[2].firing = {FiringKind::kBounded, 0, 3}; },
     "the firing rule \"bounded\" is reserved"},
    {"version", [](Program& p) { p.nodes[2].inputs[0].version = 1; },
     "operand %0 is of 1 runs back: versions of edges are reserved for asynchronous training"},
};

TEST(VerifyProgram, AcceptsWhatTheBuilderMakes) { EXPECT_EQ(messages(sample()), ""); }

TEST(VerifyProgram, SaysWhatIsWrongInWords) {
  for (const Case& c : kCases) {
    Program p = sample();
    c.spoil(p);
    EXPECT_THAT(messages(p), HasSubstr(c.expected)) << c.name;
  }
}

TEST(VerifyProgram, RefusesReservedFeaturesAsUnimplemented) {
  for (const Case& c : kReserved) {
    Program p = sample();
    c.spoil(p);
    try {
      require_valid(p);
      ADD_FAILURE() << c.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented) << c.name;
      EXPECT_THAT(error.what(), HasSubstr(c.expected));
    }
  }
}

TEST(VerifyProgram, SurvivesEveryPairOfMistakes) {
  for (const Case& a : kCases) {
    for (const Case& b : kCases) {
      Program p = sample();
      a.spoil(p);
      bool intact = p.functions[p.nodes[2].function] != nullptr && !p.nodes[1].placements.empty() &&
                    !p.nodes[3].inputs.empty() && p.nodes[2].inputs.size() == 2 &&
                    p.functions[p.nodes[2].function]->results.size() == 2 && p.functions[0];
      if (intact) b.spoil(p);
      EXPECT_NE(messages(p), "") << a.name << " and " << b.name;
    }
  }
}

// Each function by itself is within the bound.
TEST(VerifyProgram, BoundsTheNodesOfAllFunctionsTogether) {
  std::shared_ptr<const Function> body;
  for (int times : {2000, 1000}) {
    Builder b("body", Mesh{{{"data", 2}}});
    Value x = b.parameter("x", f32());
    for (int k = 0; k < times; ++k)
      x = body == nullptr ? exp(x) : b.emit(Op::call, {x}, {}, Loc::current(), body)[0];
    b.result("y", x);
    body = std::make_shared<const Function>(b.build());
  }
  Program p = sample();
  for (const char* name : {"one", "two", "three"}) {
    auto f = std::make_shared<Function>(*body);
    f->name = name;
    p.functions.push_back(std::move(f));
    EXPECT_EQ(p.functions.size() > 4, messages(p) != "") << name;
  }
  EXPECT_THAT(messages(p),
              HasSubstr("its functions have too many nodes: expected at most 4194304"));
}

TEST(VerifyProgram, MistakesCarryTheUsersLine) {
  Program p = sample();
  p.nodes[4].slice = 0;
  auto mistakes = verify(p);
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_EQ(mistakes[0].file, "train.cc");
  EXPECT_EQ(mistakes[0].line, 14);
}

}  // namespace
}  // namespace gangway::verify_program_test
