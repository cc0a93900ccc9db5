// The text form by example: tests/golden/ir/*.gw, cases split by a line of dashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ir/text/text.h"
#include "ir/wire/wire.h"
#include "runtime/base/error.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

std::vector<std::string> cases(const std::string& file) {
  std::ifstream in(cat(tests::source_folder(), "/tests/golden/ir/", file));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> out;
  constexpr std::string_view kSplit = "-----\n";
  for (size_t at; (at = text.find(kSplit)) != std::string::npos; text.erase(0, at + 6)) {
    out.push_back(text.substr(0, at));
  }
  out.push_back(text);
  return out;
}

// The texts behind "// expect: " in the first lines.
std::vector<std::string> expectations(const std::string& text) {
  constexpr std::string_view kMark = "// expect: ";
  std::vector<std::string> out;
  for (size_t at = 0; text.compare(at, kMark.size(), kMark) == 0;) {
    size_t end = text.find('\n', at);
    out.push_back(text.substr(at + kMark.size(), end - at - kMark.size()));
    at = end + 1;
  }
  return out;
}

bool is_program(const std::string& text) { return text.find("\nprogram ") != std::string::npos; }

std::string error_of(const std::string& text) {
  try {
    if (is_program(text)) {
      parse_program(text);
    } else {
      parse_function(text);
    }
  } catch (const Error& error) {
    // "text:3:12: what" as compilers say it, and the whole message.
    std::string message = error.message().substr(error.message().find(' ') + 1);
    return cat(error.where().at, ": ", message, "\n", error.what());
  }
  return "no error";
}

TEST(Text, GoldenFunctionsPrintAsTheyParse) {
  for (const std::string& text : cases("functions.gw")) {
    Function f = parse_function(text);
    std::string without_comment = text.substr(text.find('\n') + 1);
    EXPECT_EQ(print(f, {.locations = false}), without_comment);
    EXPECT_TRUE(same_graph(function_from_wire(to_wire(f)), f)) << text;
  }
}

TEST(Text, GoldenProgramsPrintAsTheyParse) {
  for (const std::string& text : cases("programs.gw")) {
    Program p = parse_program(text);
    EXPECT_EQ(print(p, {.locations = false}), text.substr(text.find('\n') + 1));
    EXPECT_TRUE(same_graph(program_from_wire(to_wire(p)), p)) << text;
  }
}

TEST(Text, MistakesOfTheTextNameLineColumnExpectedAndGot) {
  for (const std::string& text : cases("parsing_failures.gw")) {
    ASSERT_FALSE(expectations(text).empty()) << text;
    for (const std::string& expected : expectations(text)) {
      EXPECT_THAT(error_of(text), ::testing::HasSubstr(expected)) << text;
    }
  }
}

TEST(Text, MistakesOfTheGraphNameTheLineOfTheText) {
  for (const std::string& text : cases("verification.gw")) {
    ASSERT_FALSE(expectations(text).empty()) << text;
    for (const std::string& expected : expectations(text)) {
      EXPECT_THAT(error_of(text), ::testing::HasSubstr(expected)) << text;
    }
  }
}

TEST(Text, NumbersOfValuesAreLabelsAndDefaultsMayBeLeftOut) {
  Function f = parse_function(
      "func @f(%7 \"x\": f32[2, 4], %1 \"w\": f32[4]) {"
      "  %3: f32[2, 4] = rms_norm %7, %1  %9: f32[2, 4] = exp %3  return %9 \"y\" }");
  EXPECT_EQ(f.nodes[1].inputs, std::vector<ValueId>{2});
  EXPECT_NE(f.nodes[0].attrs.find("eps"), nullptr);
}

TEST(Text, LocationsAreTrailingCommentsThatNameTheUsersLine) {
  Function f = parse_function(
      "func @f(%0 \"x\": f32[]) {\n  %1: f32[] = exp %0\n  return %1 \"y\"\n}", "model.gw");
  EXPECT_THAT(print(f), ::testing::HasSubstr("%1: f32[] = exp %0  // model.gw:2\n"));
}

}  // namespace
}  // namespace gangway
