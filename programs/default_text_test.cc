#include "programs/default_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/bigram.h"
#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

using testing::HasSubstr;

TEST(DefaultText, VerseNumbersAreStrippedAndNothingElse) {
  EXPECT_EQ(strip_verse_numbers("Ge1:1 In the beginning\n2Chr36:23 Thus saith\nno number\n"),
            "In the beginning\nThus saith\nno number\n");
  EXPECT_EQ(strip_verse_numbers("Note: this stays\n3:16 too\n"), "Note: this stays\n3:16 too\n");
  EXPECT_EQ(strip_verse_numbers("Rev22:21 the last"), "the last");
  EXPECT_EQ(strip_verse_numbers(""), "");
}

TEST(DefaultText, AMissingProgramNamesThePackageToInstall) {
  try {
    default_text("gangway-no-such-program");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("not installed"));
    EXPECT_THAT(error.what(), HasSubstr("bible-kjv"));
  }
}

TEST(DefaultText, AProgramThatPrintsNoBookIsRefused) {
  EXPECT_THROW(default_text("echo"), Error);
  EXPECT_THROW(default_text("false"), Error);
}

TEST(DefaultText, TheBookHasTheBigramLossThatTrainingIsComparedWith) {
  std::string text;
  try {
    text = default_text();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_THAT(text, testing::StartsWith("In the beginning God created"));
  std::string_view all = text;
  size_t cut = all.size() - all.size() / 20;
  EXPECT_NEAR(bigram_nats_per_byte(all.substr(0, cut), all.substr(cut)), 2.30, 0.01);
}

}  // namespace
}  // namespace gangway::programs
