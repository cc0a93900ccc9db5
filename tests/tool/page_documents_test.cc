// The tool writes the documents of pages that tests/golden/page holds, and the tests of the page's
// modules (tests/page) read these files. GW_UPDATE_GOLDEN=1 writes the examples anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "gangway.h"
#include "programs/models/transformer.h"
#include "programs/optim/adamw.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/golden/golden.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/small_programs.h"
#include "tests/tool/page_programs.h"

namespace gangway::page_documents_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Prints one field a line, so that a change shows in its field.
std::string lines_of(const Json& object) {
  std::string text;
  for (const auto& [name, value] : object.items())
    text += cat(text.empty() ? "{" : ",", "\n\"", name, "\": ", value.dump());
  return text + "\n}\n";
}

Program train_step() {
  return parse_program(
      tests::file_text(tests::source_folder() + "/tests/golden/graph/train_step.gw"),
      "train_step.gw");
}

class PageDocumentsTest : public testing::Test {
 protected:
  // The examples have the memory of products as oneDNN does them with AVX2, also on machines where
  // it could do them otherwise.
  PageDocumentsTest() { setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1); }

  std::string run(std::vector<std::string> arguments, int code = 0) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    AnonymousFile output("output");
    ChildProcess child({.arguments = std::move(arguments), .output_file = output.path()});
    EXPECT_EQ(child.wait().code, code) << output_of(output);
    return output_of(output);
  }

  // The document of the page that `gangway sim` writes, with the other outputs of `gangway sim` and
  // `gangway graph` for the program.
  Json described(const Program& program, int hosts, int devices_per_host) const {
    program.save(program_);
    const Json report =
        Json::parse(run({"sim", "--program", program_, "--html", page_, "--json", "--hosts",
                         cat(hosts), "--devices-per-host", cat(devices_per_host), "--runs", "3"}));
    const std::string html = tests::file_text(page_), mark = "id=\"document\">";
    const size_t from = html.find(mark) + mark.size();
    Json all = Json::parse(html.substr(from, html.find("</script>", from) - from));
    all["said"] = {{"busy_ns", report["programs"][0]["busy_ns"]},
                   {"device", run({"graph", program_, "--level", "device"})},
                   {"memory", run({"graph", program_, "--memory"})}};
    return all;
  }

  void expect_example(const std::string& name, const Json& all) const {
    const std::filesystem::path file =
        tests::source_folder() + "/tests/golden/page/" + name + ".json";
    tests::expect_golden(file, lines_of(all));
  }

  TempDir folder_{"gangway_page"};
  const std::string program_ = folder_.path() / "p.gwp", page_ = folder_.path() / "p.html";
};

TEST_F(PageDocumentsTest, ScopesAndCollectivesAreAsTheExampleSays) {
  expect_example("two_ways", described(two_ways(), 1, 2));
}

TEST_F(PageDocumentsTest, LoopsAreAsTheExampleSays) {
  expect_example("train_step", described(train_step(), 2, 2));
}

TEST_F(PageDocumentsTest, SlicesAndTransfersAreAsTheExampleSays) {
  expect_example("there_and_back", described(there_and_back(Mesh{{{"data", 2}}}), 2, 2));
}

TEST_F(PageDocumentsTest, ReasonsAreThoseOfTheTool) {
  const Json all = described(two_ways(), 1, 2);
  std::vector<std::string> reasons;
  for (const Json& function : all["layout"]["functions"]) {
    for (const Json& value : function) {
      if (value.is_object()) reasons.push_back(value["why"]);
    }
  }
  ASSERT_GT(reasons.size(), 8u);
  for (size_t i = 0; i < reasons.size(); i += 3) {
    const std::string& reason = reasons[i];
    // "%4 of @main: ..."
    const std::string value = reason.substr(0, reason.find(' '));
    const std::string function =
        reason.substr(reason.find('@'), reason.find(':') - value.size() - 4);
    EXPECT_EQ(reason, run({"graph", program_, "--why", cat(function, ".", value)}));
  }
}

// The page finds the node of a measured time by the op, line and scopes of the program's nodes.
TEST_F(PageDocumentsTest, NodesThatTheCompilerJoinedListTheOpsOfTheProgram) {
  const programs::TransformerConfig model{
      .vocab = 16, .seq = 16, .dim = 16, .layers = 2, .heads = 2, .hidden = 32};
  ProgramBuilder b("train_step", Mesh{{{"data", 1}}});
  const Tree params = b.state("params", programs::transformer_parameters(model));
  const Value tokens = b.input("tokens", i32({8, 16}));
  const programs::Losses losses = programs::transformer_loss(model, params, tokens);
  programs::adamw(b, params, gradients(losses.total, params), {});
  b.output("loss", losses.cross_entropy);
  const Json all = described(b.build(), 1, 1);
  const auto place = [](const Json& of) {
    return Json::array({of.at("op"), of.at("line"), of.at("scopes")}).dump();
  };
  std::set<std::string> known, joined;
  for (const char* where : {"functions", "bodies"}) {
    for (const Json& function : all.at("program").at(where)) {
      for (const Json& node : function.at("nodes")) known.insert(place(node));
    }
  }
  for (const Json& function : all.at("plan").at("functions")) {
    for (const Json& step : function.at("steps")) {
      if (!step.contains("made_of")) continue;
      joined.insert(step.at("op").get<std::string>());
      for (const Json& part : step.at("made_of"))
        EXPECT_TRUE(known.contains(place(part))) << step.at("op") << ": " << part;
    }
  }
  EXPECT_THAT(joined, testing::IsSupersetOf({"cross_entropy_and_grad", "fusion"}));
}

TEST_F(PageDocumentsTest, ATimelineIsOfOneProgram) {
  two_ways().save(program_);
  EXPECT_THAT(run({"sim", "--program", program_, program_, "--html", page_}, 2),
              HasSubstr("a timeline is of one program, got 2"));
}

}  // namespace
}  // namespace gangway::page_documents_test
