// What a training shows of itself: the course of its loss on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "runtime/base/cat.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/process_output.h"
#include "tests/tool/terminal.h"
#include "tools/commands/table.h"

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
                                      GANGWAY_TOOL,
                                      "train",
                                      "quickstart",
                                      "--text",
                                      text_,
                                      "--out",
                                      out_};
    std::istringstream sizes(
        "--connect local:1x2 --steps 12 --batch 2 --layers 1 --dim 16 --heads 2 --experts 0 "
        "--seq 16 --sample-bytes 0");
    for (std::string word; sizes >> word;) words.push_back(word);
    return words;
  }

  // The live lines that were on the terminal, one over the other.
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
    // An untrained model learns at first, so the greatest loss is not the last.
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

}  // namespace
}  // namespace gangway
