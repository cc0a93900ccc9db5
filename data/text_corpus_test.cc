#include "data/text_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/base/error.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using TextCorpusTest = FolderTest;

void expect_error(const std::function<void()>& call, const std::string& text) {
  try {
    call();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST_F(TextCorpusTest, HoldsOutTheLastTwentieth) {
  std::string bytes(1999, 'a');
  bytes.back() = 'z';
  TextCorpus corpus = TextCorpus::load(write("book", bytes));
  EXPECT_EQ(corpus.heldout().size(), 99);
  EXPECT_EQ(corpus.train().size(), 1900);
  EXPECT_EQ(corpus.heldout().back(), 'z');
}

TEST_F(TextCorpusTest, JoinsTheFilesOfAFolderSortedByPath) {
  write("b.txt", "second ");
  write("a/deep.txt", "first ");
  write("c", std::string("thi\0rd", 6));
  EXPECT_EQ(TextCorpus::load(folder_).train(), std::string_view("first second thi\0rd", 19));
}

TEST_F(TextCorpusTest, MissingTextNamesThePath) {
  expect_error([&] { TextCorpus::load(folder_ / "absent.txt"); }, "absent.txt: no such file");
}

TEST_F(TextCorpusTest, EmptyTextIsRefused) {
  expect_error([&] { TextCorpus::load(write("empty", "")); }, "empty: the text is empty");
  fs::remove(folder_ / "empty");
  expect_error([&] { TextCorpus::load(folder_); }, "the folder holds no files");
}

TEST_F(TextCorpusTest, SpecialFilesAreRefused) {
  expect_error([] { TextCorpus::load("/dev/null"); }, "neither a file nor a folder");
}

TEST_F(TextCorpusTest, TooShortTextSaysHowMuchIsNeeded) {
  TextCorpus corpus = TextCorpus::load(write("short", std::string(2559, 'a')));
  expect_error([&] { corpus.require_windows(128); }, "expected at least 2560 bytes");
  TextCorpus::load(write("short", std::string(2560, 'a'))).require_windows(128);
}

}  // namespace
}  // namespace gangway
