// Examples of the output of `gangway graph`: tests/golden/graph. GW_UPDATE_GOLDEN=1 writes the
// examples anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/golden/golden.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

struct Form {
  const char* name;
  std::vector<std::string> arguments;
};

class GraphGoldenTest : public ::testing::TestWithParam<Form> {
 protected:
  // Saves the text as a program's file; its source lines are lines of the text.
  std::string save(const std::string& name) const {
    const std::string file = (folder_.path() / (name + ".gwp")).string();
    parse_program(tests::file_text(golden_ / (name + ".gw")), name + ".gw").save(file);
    return file;
  }

  std::string printed(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {tests::gangway_tool(), "graph"});
    AnonymousFile output("output");
    ChildProcess child({.arguments = std::move(arguments), .output_file = output.path()});
    EXPECT_EQ(child.wait().code, 0);
    return output_of(output);
  }

  const std::filesystem::path golden_ = tests::source_folder() + "/tests/golden/graph";
  TempDir folder_;
};

TEST_P(GraphGoldenTest, PrintsWhatTheExampleSays) {
  const Form& form = GetParam();
  std::vector<std::string> arguments = form.arguments;
  for (std::string& argument : arguments) {
    if (argument == "A") argument = save("train_step");
    if (argument == "B") argument = save("other");
  }
  const std::string text = printed(arguments);
  EXPECT_FALSE(text.empty());
  tests::expect_golden(golden_ / cat(form.name, ".txt"), text);
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphGoldenTest,
    ::testing::Values(
        Form{"program", {"A"}}, Form{"on_two_hosts", {"A", "--hosts", "2"}},
        Form{"function", {"A", "--level", "function"}},
        Form{"sharding", {"A", "--level", "sharding"}}, Form{"device", {"A", "--level", "device"}},
        Form{"plan", {"A", "--level", "plan"}}, Form{"after", {"A", "--after", "order_commit"}},
        Form{"wider", {"A", "--level", "plan", "--mesh", "data=4"}},
        Form{"op", {"A", "--op", "dot"}}, Form{"collectives", {"A", "--collectives"}},
        Form{"why_state", {"A", "--why", "params.down"}},
        Form{"why_value", {"A", "--why", "@layer.%5"}}, Form{"why_call", {"A", "--why", "main"}},
        Form{"why_line", {"A", "--why", "train_step.gw:8"}}, Form{"diff", {"--diff", "A", "B"}}),
    [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace gangway
