// A model's sizes as a JSON file.
#include "tools/commands/sizes_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/train/train.h"
#include "tests/support/error_of.h"

namespace gangway::tool {
namespace {

using programs::SaidSize;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  return error_of([&] { parse_sizes(text, "sizes.json"); }).what();
}

TEST(SizesFile, SaysEachSizeWithItsLine) {
  const std::vector<SaidSize> said = parse_sizes(
      "{\n  \"layers\": 2, \"gated\": true,\n\n  \"capacity_factor\":\n 1.5,\n  \"experts\": [0, "
      "8]\n}\n",
      "sizes.json");
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[0].where, "sizes.json:2: \"layers\"");
  EXPECT_EQ(std::get<int64_t>(said[0].value), 2);
  EXPECT_EQ(said[1].where, "sizes.json:2: \"gated\"");
  EXPECT_TRUE(std::get<bool>(said[1].value));
  EXPECT_EQ(said[2].where, "sizes.json:4: \"capacity_factor\"");
  EXPECT_EQ(std::get<double>(said[2].value), 1.5);
  EXPECT_EQ(said[3].where, "sizes.json:6: \"experts\"");
  EXPECT_EQ(std::get<std::vector<int64_t>>(said[3].value), (std::vector<int64_t>{0, 8}));
}

TEST(SizesFile, InvalidSizesAreRefusedWithLineAndKey) {
  EXPECT_THAT(refusal("{\n\"widht\": 3}"),
              StartsWith("sizes.json:2: \"widht\": there is no such key: expected one of layers,"));
  EXPECT_THAT(refusal("{\"dim\": 8,\n\n\"dim\": 9}"),
              StartsWith("sizes.json:3: \"dim\": this key stands twice"));
  EXPECT_THAT(refusal("{\"dim\": \"8\"}"),
              StartsWith("sizes.json:1: \"dim\": expected a whole number, got \"8\""));
  EXPECT_THAT(refusal("{\"dim\": 8.5}"), HasSubstr("expected a whole number, got 8.5"));
  EXPECT_THAT(refusal("{\"dim\": 18446744073709551615}"), HasSubstr("got 18446744073709551615"));
  EXPECT_THAT(refusal("{\"gated\": 1}"), HasSubstr("\"gated\": expected true or false, got 1"));
  EXPECT_THAT(refusal("{\"dim\": null}"), HasSubstr("expected a whole number, got null"));
  EXPECT_THAT(refusal("{\"dim\": [1]}"), HasSubstr("expected a whole number, got a list"));
  EXPECT_THAT(refusal("{\"dim\": {\"x\": 1}}"), HasSubstr("\"dim\": expected a size, got"));
  EXPECT_THAT(refusal("{\"experts\": [1, [2]]}"), HasSubstr("got a list"));
  EXPECT_THAT(refusal("{\"experts\": []}"), HasSubstr("an empty list"));
  EXPECT_THAT(refusal("{\"experts\": [1, true]}"), HasSubstr("got true"));
}

TEST(SizesFile, TextsThatAreNoJsonObjectAreRefusedWithTheirLine) {
  EXPECT_THAT(refusal("{\n\"dim\": 3,\n}"), StartsWith("sizes.json:3: no JSON object"));
  EXPECT_THAT(refusal(""), StartsWith("sizes.json:1: no JSON object"));
  EXPECT_THAT(refusal("[1]"), StartsWith("sizes.json:1: expected an object of sizes"));
  EXPECT_THAT(refusal("7"), StartsWith("sizes.json:1: expected an object of sizes"));
  EXPECT_THAT(refusal("true"), StartsWith("sizes.json:1: expected an object of sizes"));
  EXPECT_THAT(refusal("{\"dim\": 3} {}"), StartsWith("sizes.json:1: no JSON object"));
}

TEST(SizesFile, TheTextOfAModelsSizesIsSuchAFile) {
  for (const bool dense : {false, true}) {
    programs::LanguageModelConfig config = programs::quickstart_options().config;
    if (dense) config.model.moe.experts = 0;
    const std::string text = programs::sizes_text(config.model);
    programs::LanguageModelConfig read;
    programs::set_sizes(read, parse_sizes(text, "model.json"));
    EXPECT_EQ(programs::sizes_text(read.model), text);
  }
}

TEST(SizesFile, AGateThatIsDividedByItselfIsReadBackFromTheFile) {
  programs::LanguageModelConfig config = programs::quickstart_options().config;
  for (const int64_t top_k : {1, 2}) {
    for (const bool renormalize : {false, true}) {
      config.model.moe.top_k = top_k;
      config.model.moe.renormalize = renormalize;
      programs::LanguageModelConfig read;
      programs::set_sizes(read, parse_sizes(programs::sizes_file_text(config.model), "model.json"));
      EXPECT_EQ(programs::renormalizes(read.model.moe), renormalize) << top_k;
      EXPECT_EQ(read.model.moe.top_k, top_k);
    }
  }
}

}  // namespace
}  // namespace gangway::tool
