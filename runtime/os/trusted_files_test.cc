#include "runtime/os/trusted_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/hash.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TrustedFilesTest : public testing::Test {
 protected:
  TrustedFilesTest() {
    fs::create_directories(trusted_ / "below");
    fs::create_directories(other_);
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  TempDir folder_;
  const fs::path trusted_ = folder_.path() / "trusted", other_ = folder_.path() / "trusted-not";
};

TEST_F(TrustedFilesTest, LibrariesAreFoundByTheirContentWhereverTheyLieBelow) {
  write(trusted_ / "a.so", "one");
  write(trusted_ / "below/b.so", std::string("two\0three", 9));
  write(trusted_ / "c.txt", "text");
  write(other_ / "d.so", "four");
  const TrustedFiles files({trusted_});
  EXPECT_EQ(files.library(content_hash("one")), "one");
  EXPECT_EQ(files.library(content_hash(std::string("two\0three", 9))),
            std::string("two\0three", 9));
  EXPECT_EQ(files.library(content_hash("text")), std::nullopt);
  EXPECT_EQ(files.library(content_hash("four")), std::nullopt);
  EXPECT_EQ(TrustedFiles({}).library(content_hash("one")), std::nullopt);
}

TEST_F(TrustedFilesTest, FilesThatChangeOrComeLaterAreNotTrusted) {
  write(trusted_ / "a.so", "one");
  const TrustedFiles files({trusted_});
  write(trusted_ / "a.so", "another");
  write(trusted_ / "later.so", "later");
  for (const char* const bytes : {"one", "another", "later"})
    EXPECT_EQ(files.library(content_hash(bytes)), std::nullopt) << bytes;
  fs::remove(trusted_ / "a.so");
  EXPECT_EQ(files.library(content_hash("one")), std::nullopt);
}

TEST_F(TrustedFilesTest, AFileIsWithinAFolderWhereItReallyLies) {
  write(trusted_ / "text", "x");
  write(other_ / "text", "y");
  fs::create_symlink(other_ / "text", trusted_ / "away");
  fs::create_directory_symlink(trusted_, folder_.path() / "link");
  const TrustedFiles files({folder_.path() / "link"});
  EXPECT_TRUE(files.holds(trusted_ / "text"));
  EXPECT_TRUE(files.holds(trusted_));
  EXPECT_TRUE(files.holds(trusted_ / "below/../text"));
  EXPECT_FALSE(files.holds(trusted_ / "away"));
  EXPECT_FALSE(files.holds(other_ / "text"));
  EXPECT_FALSE(files.holds(trusted_ / "../trusted-not/text"));
  EXPECT_FALSE(files.holds(trusted_ / "nowhere"));
  EXPECT_FALSE(files.holds("/"));
  EXPECT_EQ(files.folders_text(), fs::canonical(trusted_).string());
  EXPECT_EQ(TrustedFiles({}).folders_text(), "none");
}

TEST_F(TrustedFilesTest, AFolderThatIsNotThereIsNamed) {
  const auto refused = [](const fs::path& folder) {
    return error_text_of([&] { static_cast<void>(TrustedFiles({folder})); });
  };
  EXPECT_THAT(
      refused(folder_.path() / "no"),
      HasSubstr(cat("trusted folder ", (folder_.path() / "no").string(), ": No such file")));
  write(trusted_ / "a.so", "one");
  EXPECT_THAT(refused(trusted_ / "a.so"), HasSubstr("it is no folder"));
}

}  // namespace
}  // namespace gangway
