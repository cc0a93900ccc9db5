// A program that is not ours reads Model Explorer's JSON graph format.
#include "ir/inspect/model_explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/cat.h"
#include "tests/inspect/golden.h"
#include "tests/inspect/reader.h"
#include "tests/inspect/sample_programs.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Read check(const std::vector<std::string>& texts) {
  const TempDir folder;
  std::vector<std::string> files;
  for (const std::string& text : texts)
    files.push_back(file_with(folder, cat(files.size(), ".json"), text));
  return run_python("check_model_explorer.py", files);
}

// The JSON is indented, so that a diff shows only what changed.
TEST(ModelExplorerTest, ASmallProgramIsWrittenAsTheGoldenFileSays) {
  using Ordered = nlohmann::ordered_json;
  expect_golden("sample.model_explorer.json",
                Ordered::parse(to_model_explorer(golden_program())).dump(1) + "\n");
}

TEST(ModelExplorerTest, TheGraphsOfProgramsKeepTheFormat) {
  const Read read = check({to_model_explorer(quickstart_program())});
  EXPECT_TRUE(read.ok) << read.said;
  // 30 states, 3 inputs, 95 nodes of the step and 6 outputs; the bodies of its two scans.
  EXPECT_THAT(read.said, HasSubstr("3 graphs; 134 nodes, "));
  EXPECT_THAT(read.said, HasSubstr("in ['main']"));
  std::vector<std::string> texts = {to_model_explorer(two_stages()),
                                    to_model_explorer(hostile_program())};
  tests::Random random(tests::test_seed());
  for (int i = 0; i < 20; ++i) texts.push_back(to_model_explorer(tests::random_program(random)));
  const Read others = check(texts);
  EXPECT_TRUE(others.ok) << others.said;
}

TEST(ModelExplorerTest, TheReaderRefusesEdgesFromNowhere) {
  json graph = json::parse(to_model_explorer(golden_program()));
  for (json& node : graph["graphs"][0]["nodes"]) {
    for (json& edge : node["incomingEdges"]) edge["sourceNodeId"] = "nowhere";
  }
  const Read read = check({graph.dump()});
  EXPECT_FALSE(read.ok);
  EXPECT_THAT(read.said, HasSubstr("reads nowhere which there is not"));
}

// A function of several calls is a graph that they open.
TEST(ModelExplorerTest, NodesAreGroupedBySliceAndOpenFunctionsThatSeveralOfThemCall) {
  const json graph = json::parse(to_model_explorer(two_stages()));
  ASSERT_EQ(graph["graphs"].size(), 2u);
  EXPECT_EQ(graph["graphs"][1]["id"], "function 0: plus one");
  std::map<std::string, std::string> group_of;
  for (const json& node : graph["graphs"][0]["nodes"]) {
    group_of[node["label"]] = node["namespace"];
    if (node["label"] == "call there") {
      EXPECT_EQ(node["subgraphIds"][0], "function 0: plus one");
    }
  }
  EXPECT_EQ(group_of["call here"], "main");
  EXPECT_EQ(group_of["call there"], "second");
  EXPECT_EQ(graph["graphs"][0]["groupNodeAttributes"]["second"]["mesh"], "{data: 2}");
}

}  // namespace
}  // namespace gangway
