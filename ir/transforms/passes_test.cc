// Each pass by example: tests/golden/passes/NAME.gw has a function, a line of dashes, and the same
// function behind the pass. A local function is given to the pass as it stands, with its first
// result written to its first parameter; a function in the global view goes through the passes
// before it too. GW_UPDATE_GOLDEN=1 writes what stands behind the dashes.
#include "ir/transforms/passes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/plan/plan_text.h"
#include "ir/text/text.h"
#include "ir/transforms/compile_record.h"
#include "ir/verify/verify.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

constexpr std::string_view kDashes = "-----\n";

std::string folder() { return tests::source_folder() + "/tests/golden/passes"; }

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
    const std::filesystem::path file = cat(folder(), "/", pass.name, ".gw");
    std::ifstream in(file);
    ASSERT_TRUE(in) << file << " is missing";
    std::stringstream text;
    text << in.rdbuf();
    const std::string before = text.str().substr(0, text.str().find(kDashes));
    const Function function = parse_function(before);
    require_valid(function);
    EXPECT_EQ(before, without_locations(function)) << "the example is printed otherwise";
    const std::string after = behind(pass, function);
    if (pass.name != "verify") {
      EXPECT_NE(after, before) << "the pass leaves its example as it is";
    }
    if (std::getenv("GW_UPDATE_GOLDEN") != nullptr)
      std::ofstream(file) << before << kDashes << after;
    EXPECT_EQ(cat(before, kDashes, after), text.str());
  }
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
