#include "runtime/base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PathsTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (const char* before = getenv("TMPDIR")) before_ = before;
  }
  void TearDown() override {
    if (before_) {
      setenv("TMPDIR", before_->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
    FolderTest::TearDown();
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(PathsTest, TheTemporaryFolderIsTheOneThatTmpdirNames) {
  setenv("TMPDIR", folder_.c_str(), 1);
  EXPECT_EQ(temp_folder(), folder_);
  setenv("TMPDIR", ".", 1);
  EXPECT_TRUE(temp_folder().is_absolute());
}

TEST_F(PathsTest, AnEmptyTmpdirCountsAsUnset) {
  unsetenv("TMPDIR");
  const std::filesystem::path usual = temp_folder();
  setenv("TMPDIR", "", 1);
  EXPECT_EQ(temp_folder(), usual);
}

TEST_F(PathsTest, ATmpdirThatIsMissingOrAFileIsNamedWithWhatToDo) {
  write("file", "");
  for (const char* name : {"missing", "file", "file/below"}) {
    const std::string path = (folder_ / name).string();
    setenv("TMPDIR", path.c_str(), 1);
    EXPECT_THAT(error_of([] { temp_folder(); }).what(),
                AllOf(HasSubstr("temporary folder " + path + " (TMPDIR): "),
                      HasSubstr("hint: set TMPDIR to a folder with room")));
  }
}

}  // namespace
}  // namespace gangway
