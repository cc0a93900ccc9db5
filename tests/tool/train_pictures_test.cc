// A training shows the curve of its loss on a terminal, and writes a page at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/cat.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/terminal.h"
#include "tools/io/table.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

class TrainPicturesTest : public testing::Test {
 protected:
  TrainPicturesTest() {
    std::ofstream file(text_);
    for (int verse = 1; verse <= 2000; ++verse) file << "And this is verse " << verse << ".\n";
  }

  std::vector<std::string> training(const std::string& locale) const {
    std::vector<std::string> words = {"/usr/bin/env",
                                      "LC_ALL=" + locale,
                                      tests::gangway_tool(),
                                      "train",
                                      "quickstart",
                                      "--text",
                                      text_,
                                      "--out",
                                      out_};
    std::istringstream sizes(
        "--connect local:1x2 --steps 12 --batch 2 --layers 1 --dim 16 --heads 2 --experts 0 "
        "--replace "
        "--seq 16 --sample-bytes 0");
    for (std::string word; sizes >> word;) words.push_back(word);
    return words;
  }

  // The live lines that the terminal showed, each of which replaced the one before.
  static std::vector<std::string> live_lines(const std::string& text) {
    std::vector<std::string> lines;
    const std::string begin = "\r\033[K";
    for (size_t at = text.find(begin); at != text.npos;) {
      at += begin.size();
      const std::string line = text.substr(at, text.find_first_of("\r\n", at) - at);
      if (line.starts_with("step ")) lines.push_back(line);
      at = text.find(begin, at);
    }
    return lines;
  }

  TempDir folder_{"gangway_pictures"};
  const std::string text_ = (folder_.path() / "text.txt").string();
  const std::string out_ = (folder_.path() / "out").string();
};

TEST_F(TrainPicturesTest, ALiveLineEndsWithTheLossesInWhatTheTerminalCanShow) {
  for (const char* locale : {"C.UTF-8", "C"}) {
    OnTerminal trained(training(locale), 80);
    EXPECT_EQ(trained.end(), 0) << trained.text();
    const std::vector<std::string> lines = live_lines(trained.text());
    ASSERT_FALSE(lines.empty()) << trained.text();
    for (const std::string& line : lines) EXPECT_LT(tool::width_of(line), 80u) << line;
    EXPECT_THAT(lines.back(), HasSubstr("step 12/12  train "));
    const bool is_utf8 = std::string(locale) == "C.UTF-8";
    // An untrained model learns at first; the greatest loss is not the last.
    EXPECT_THAT(lines.back(), HasSubstr(is_utf8 ? "█" : "\"")) << locale;
    EXPECT_THAT(lines.back(), HasSubstr(is_utf8 ? "▁" : "_")) << locale;
    const bool is_ascii =
        std::ranges::all_of(trained.text(), [](char c) { return static_cast<signed char>(c) > 0; });
    EXPECT_EQ(is_ascii, !is_utf8);
  }
}

TEST_F(TrainPicturesTest, OnAPipeLinesArePlain) {
  AnonymousFile said("said");
  ChildProcess trained({.arguments = training("C.UTF-8"), .output_file = said.path()});
  EXPECT_TRUE(trained.wait().ok()) << output_of(said);
  EXPECT_THAT(output_of(said), HasSubstr("\nstep 12/12  train "));
  EXPECT_THAT(output_of(said), Not(HasSubstr("\r")));
  EXPECT_THAT(output_of(said), Not(HasSubstr("▁")));
}

TEST_F(TrainPicturesTest, LeavesAPageWithItsLossesAndSaysWhere) {
  AnonymousFile said("said");
  ChildProcess trained({.arguments = training("C"), .output_file = said.path()});
  ASSERT_TRUE(trained.wait().ok()) << output_of(said);
  const std::string page = out_ + "/page.html", text = output_of(said);
  EXPECT_THAT(text, HasSubstr(cat("open ", page, " in a browser")));
  std::ifstream file(page);
  const std::string html((std::istreambuf_iterator<char>(file)), {});
  const std::string mark = "id=\"document\">";
  const size_t from = html.find(mark) + mark.size();
  const nlohmann::json document =
      nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
  EXPECT_EQ(document["program"]["name"], "train_step");
  const nlohmann::json& spans = document["timeline"]["spans"];
  EXPECT_GT(spans.size(), 100u);
  // The last spans too are of the training's steps, whose ops have places in the source; spans that
  // are measured after the last step have none.
  const bool ends_with_a_step = std::any_of(spans.end() - 50, spans.end(),
                                            [](const auto& span) { return !span[5].is_null(); });
  EXPECT_TRUE(ends_with_a_step);
  ASSERT_EQ(document["curves"].size(), 1u);
  const nlohmann::json& points = document["curves"][0]["points"];
  ASSERT_EQ(points.size(), 12u);
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i]["step"], i + 1);
    EXPECT_GT(points[i]["tokens_per_s"], 0);
    sum += points[i]["loss"].get<double>();
  }
  const nlohmann::json report = nlohmann::json::parse(text.substr(text.rfind("{\"steps\"")));
  EXPECT_NEAR(sum / 12, report["train_loss"], 1e-5);  // A mean over the last 20 steps.
  EXPECT_EQ(report["page"], page);
}

TEST_F(TrainPicturesTest, KeepsItsCheckpointWhereThePageCannotBeWritten) {
  std::filesystem::create_directories(out_ + "/page.html/in the way");
  AnonymousFile said("said");
  ChildProcess trained({.arguments = training("C"), .output_file = said.path()});
  EXPECT_TRUE(trained.wait().ok()) << output_of(said);
  EXPECT_THAT(output_of(said), HasSubstr(cat("warning: ", out_, "/page.html is not written: ")));
  EXPECT_TRUE(std::filesystem::exists(out_ + "/checkpoints"));
}

}  // namespace
}  // namespace gangway
