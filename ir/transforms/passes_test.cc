// Each pass by example: tests/golden/passes/NAME.gw has a function, a line of dashes, and the same
// function behind the pass. A local function is given to the pass as it stands, with its first
// result written to its first parameter; a function in the global view goes through the passes
// before it too. GW_UPDATE_GOLDEN=1 writes what stands behind the dashes.
#include "ir/transforms/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ir/plan/plan_text.h"
#include "ir/text/text.h"
#include "ir/transforms/compile_record.h"
#include "ir/verify/verify.h"
#include "tests/support/golden/golden.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

constexpr std::string_view kDashes = "-----\n";

std::filesystem::path file_of(const Pass& pass) {
  return cat(tests::source_folder(), "/tests/golden/passes/", pass.name, ".gw");
}

// The function above the dashes, as text.
std::string example_of(const Pass& pass) {
  const std::string text = tests::file_text(file_of(pass));
  return text.substr(0, text.find(kDashes));
}

std::string without_locations(const Function& function) {
  return print(function, {.locations = false});
}

// The function behind the pass, as text.
std::string behind(const Pass& pass, const Function& before) {
  CallContext context;
  CompileRecord record{.keeps_passes = true};
  if (!before.local) {
    compile_function(before, context, {}, &record);
    for (const AfterPass& after : record.after) {
      if (after.pass == pass.name) return without_locations(after.function);
    }
  }
  const bool commits = pass.name == "order_commit" || pass.name == "cut_sections";
  if (commits) context.in_place = {{0, 0}};
  Compilation c{.global = before, .context = context, .function = before};
  c.commit_begin = static_cast<NodeId>(before.nodes.size() - (pass.name == "cut_sections" ? 1 : 0));
  run_pass(pass, c);
  require_valid(c.function);
  const std::string commit =
      commits ? cat("// ", commit_text(c.function.nodes.size(), c.commit_begin, c.sections), "\n")
              : "";
  return commit + without_locations(c.function);
}

TEST(Passes, EachChangesItsExampleIntoTheTextBehindTheDashes) {
  for (const Pass& pass : passes()) {
    SCOPED_TRACE(pass.name);
    const std::string before = example_of(pass);
    const Function function = parse_function(before);
    require_valid(function);
    EXPECT_EQ(before, without_locations(function)) << "the example is printed otherwise";
    const std::string after = behind(pass, function);
    if (pass.name != "verify") {
      EXPECT_NE(after, before) << "the pass leaves its example as it is";
    }
    tests::expect_golden(file_of(pass), cat(before, kDashes, after));
  }
}

// A local function whose only node calls this one.
Function calling(Function body) {
  // Placements are the business of whoever calls the outer function.
  for (Parameter& parameter : body.parameters) parameter.placements.clear();
  Function outer;
  outer.name = "outer";
  outer.mesh = body.mesh;
  outer.local = true;
  outer.parameters = body.parameters;
  outer.result_names = body.result_names;
  Node call{.op = Op::call, .results = static_cast<uint32_t>(body.results.size())};
  for (ValueId p = 0; p < body.parameters.size(); ++p) {
    outer.types.push_back(body.types[p]);
    call.inputs.push_back(p);
  }
  call.first_result = static_cast<ValueId>(outer.types.size());
  for (const ValueId result : body.results) {
    outer.results.push_back(static_cast<ValueId>(outer.types.size()));
    outer.types.push_back(body.types[result]);
  }
  call.body = std::make_shared<const Function>(std::move(body));
  outer.nodes.push_back(std::move(call));
  outer.infos.resize(1);
  return outer;
}

TEST(Passes, PassesOnBodiesDoToABodyWhatTheyDoToAFunction) {
  int seen = 0;
  for (const Pass& pass : passes()) {
    if (pass.on_bodies == OnBodies::kNo) continue;
    SCOPED_TRACE(pass.name);
    ++seen;
    const CallContext context;
    const auto behind = [&](Function function) {
      Compilation c{.global = function, .context = context, .function = function};
      c.commit_begin = static_cast<NodeId>(function.nodes.size());
      run_pass(pass, c);
      return c.function;
    };
    const Function outer = calling(parse_function(example_of(pass)));
    require_valid(outer);
    const Function& body = *outer.nodes.at(0).body;
    const Function made = behind(outer);
    const auto call = std::ranges::find(made.nodes, Op::call, &Node::op);
    ASSERT_NE(call, made.nodes.end());
    EXPECT_NE(without_locations(*call->body), without_locations(body));
    EXPECT_EQ(without_locations(*call->body), without_locations(behind(body)));
  }
  EXPECT_GT(seen, 5);
}

TEST(Passes, EachHasANameOfItsOwnAndALineForPeople) {
  std::set<std::string_view> names;
  for (const Pass& pass : passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.doc.empty()) << pass.name;
  }
}

// A record has the function behind each pass, and the last of them is the compiled one.
TEST(Passes, ARecordOfACompilationHasTheFunctionBehindEach) {
  const Function function =
      parse_function(R"(func @f(%0 "x": f32[8] {data: shard(0)}) mesh {data: 2} {
  %1: f32[8] = exp %0
  %2: f32[] = reduce_sum %1 {axes = [0]}
  return %2 "sum"
}
)");
  CompileRecord record{.keeps_passes = true};
  std::vector<std::string_view> begun;
  const Compiled compiled = compile_function(
      function, {}, [&](std::string_view pass) { begun.push_back(pass); }, &record);
  ASSERT_EQ(record.after.size(), passes().size());
  ASSERT_EQ(begun.size(), passes().size());
  for (size_t i = 0; i < passes().size(); ++i) {
    EXPECT_EQ(record.after[i].pass, passes()[i].name);
    EXPECT_EQ(begun[i], passes()[i].name);
  }
  EXPECT_EQ(print(record.after.back().function), print(*compiled.local.function));
  EXPECT_EQ(print(record.after.front().function), print(function));
}

}  // namespace
}  // namespace gangway
