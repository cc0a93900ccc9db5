// A validator that is not ours checks the JSON of graphs against docs/graph.schema.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ir/graph/node_facts.h"
#include "ir/inspect/collectives.h"
#include "ir/inspect/graphviz.h"
#include "ir/inspect/outline.h"
#include "runtime/base/cat.h"
#include "tests/inspect/reader.h"
#include "tests/inspect/sample_programs.h"
#include "tests/support/places.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kSchema = tests::source_folder() + "/docs/graph.schema.json";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class GraphJsonTest : public ::testing::Test {
 protected:
  Read validate(const std::string& definition, const std::vector<std::string>& texts) {
    std::vector<std::string> arguments{kSchema, definition};
    for (const std::string& text : texts)
      arguments.push_back(file_with(folder_, cat(arguments.size(), ".json"), text));
    return run_python("validate.py", arguments);
  }

  TempDir folder_;
};

TEST_F(GraphJsonTest, TheJsonOfProgramsKeepsTheSchema) {
  std::vector<std::string> texts = {to_json(quickstart_program()), to_json(two_stages()),
                                    to_json(hostile_program())};
  tests::Random random(tests::test_seed());
  for (int i = 0; i < 20; ++i) texts.push_back(to_json(tests::random_program(random)));
  const Read read = validate("program", texts);
  EXPECT_TRUE(read.ok) << read.said;
}

TEST_F(GraphJsonTest, TheJsonOfFunctionsAndLocalFunctionsKeepsTheSchema) {
  std::vector<std::string> texts;
  const Plan plan = plan_of(quickstart_program());
  for (const LocalFunction& function : plan.functions) texts.push_back(to_json(*function.function));
  tests::Random random(tests::test_seed());
  for (int i = 0; i < 20; ++i)
    texts.push_back(to_json(tests::random_function(random, Mesh{{{"data", 2}}})));
  const Read read = validate("lone_function", texts);
  EXPECT_TRUE(read.ok) << read.said;
}

TEST_F(GraphJsonTest, TheSchemaRefusesUnknownAndMissingFields) {
  json more = json::parse(to_json(quickstart_program()));
  more["functions"][0]["nodes"][0]["colour"] = "red";
  Read read = validate("program", {more.dump()});
  EXPECT_FALSE(read.ok);
  EXPECT_THAT(read.said, HasSubstr("/functions/0/nodes/0: Additional properties are not allowed "
                                   "('colour' was unexpected)"));
  json less = json::parse(to_json(two_stages()));
  less["nodes"][0].erase("bytes");
  read = validate("program", {less.dump()});
  EXPECT_FALSE(read.ok);
  EXPECT_THAT(read.said, HasSubstr("/nodes/0: 'bytes' is a required property"));
}

// Names of all properties below a node of the schema.
void add_properties(const json& schema, std::set<std::string>& names) {
  if (schema.is_array() || schema.is_object()) {
    for (const json& part : schema) add_properties(part, names);
  }
  if (!schema.is_object() || !schema.contains("properties")) return;
  for (const auto& [name, of] : schema["properties"].items()) names.insert(name);
}

TEST_F(GraphJsonTest, IsDescribedFieldByField) {
  std::set<std::string> names;
  add_properties(json::parse(text_of(kSchema)), names);
  EXPECT_GT(names.size(), 40u);
  const std::string page = text_of(tests::source_folder() + "/docs/graph_json.md");
  for (const std::string& name : names) {
    const bool named = page.find(cat("`", name, "`")) != page.npos ||
                       page.find(cat("{", name, ", ")) != page.npos ||
                       page.find(cat(", ", name, "}`")) != page.npos;
    EXPECT_TRUE(named) << name;
  }
}

TEST_F(GraphJsonTest, SaysWhatNodesCostAndHowOftenLoopsRun) {
  const Program program = quickstart_program();
  const json graph = json::parse(to_json(program));
  EXPECT_EQ(graph["version"], 1);
  double flops = 0;
  int loops = 0;
  for (const json& node : graph["nodes"]) {
    if (node["kind"] != "call") continue;
    const json& function = graph["functions"][node["function"].get<size_t>()];
    for (const json& inner : function["nodes"]) {
      flops += inner["cost"]["flops"].get<double>();
      if (inner["op"] != "scan") continue;
      ++loops;
      EXPECT_EQ(inner["trip_count"], 3);
      const json& body = graph["bodies"][inner["body"].get<size_t>()];
      EXPECT_EQ(inner["cost"]["flops"].get<double>(), 3 * body["cost"]["flops"].get<double>());
    }
  }
  EXPECT_EQ(loops, 2);
  EXPECT_EQ(flops, totals_of(program).flops);
}

TEST_F(GraphJsonTest, SaysWhatCollectivesOfALocalFunctionMove) {
  const Plan plan = plan_of(quickstart_program());
  int64_t seen = 0;
  for (const LocalFunction& local : plan.functions) {
    const json graph = json::parse(to_json(*local.function));
    for (NodeId id = 0; id < local.function->nodes.size(); ++id) {
      const json& node = graph["nodes"][id];
      ASSERT_EQ(node.contains("collective"), row(local.function->nodes[id].op).meets);
      if (!node.contains("collective")) continue;
      const CollectiveUse use = collective_of(*local.function, id);
      EXPECT_EQ(node["collective"]["bytes"], use.bytes);
      EXPECT_EQ(node["collective"]["sent_bytes"], use.sent_bytes());
      EXPECT_EQ(node["collective"]["axes"], "data");
      EXPECT_EQ(node["collective"]["members"], 4);
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST_F(GraphJsonTest, HoldsHostileNamesAsTheyAre) {
  const json graph = json::parse(to_json(hostile_program()));
  EXPECT_EQ(graph["name"], kHostileName);
  EXPECT_EQ(graph["nodes"][0]["name"], "\x01\x1b[31m\n\r\t\"quoted\\");
  EXPECT_EQ(graph["nodes"][0]["line"], "\xef\xbf\xbd\xef\xbf\xbd(:3");
}

}  // namespace
}  // namespace gangway
