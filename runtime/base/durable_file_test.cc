#include "runtime/base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <iterator>
#include <set>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

class FilesBeyondTheLimitTest : public testing::Test {
 protected:
  FilesBeyondTheLimitTest() { sigaction(SIGXFSZ, nullptr, &before_); }
  ~FilesBeyondTheLimitTest() override { sigaction(SIGXFSZ, &before_, nullptr); }

  static void set(void (*handler)(int)) {
    struct sigaction action{};
    action.sa_handler = handler;
    sigaction(SIGXFSZ, &action, nullptr);
  }
  static void (*handler())(int) {
    struct sigaction action{};
    sigaction(SIGXFSZ, nullptr, &action);
    return action.sa_handler;
  }

 private:
  struct sigaction before_{};
};

TEST_F(FilesBeyondTheLimitTest, TheSignalNeitherEndsTheProcessNorIsIgnoredInItsChildren) {
  set(SIG_DFL);
  get_errors_for_files_beyond_the_limit();
  EXPECT_NE(handler(), SIG_DFL);
  EXPECT_NE(handler(), SIG_IGN);
  EXPECT_EQ(raise(SIGXFSZ), 0);
}

TEST_F(FilesBeyondTheLimitTest, AUsersChoiceOfTheSignalsHandlerStays) {
  set(SIG_IGN);
  get_errors_for_files_beyond_the_limit();
  EXPECT_EQ(handler(), SIG_IGN);
}

class WholeFilesTest : public FolderTest {
 protected:
  static fs::perms mode_of(const fs::path& path) {
    std::error_code error;
    return fs::status(path, error).permissions();
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
};

TEST_F(WholeFilesTest, AFileIsReadWholeUpToALimit) {
  const std::string text(size_t{200} << 10, 'x');
  const fs::path path = write("text", text);
  EXPECT_EQ(read_whole(path, text.size()), text);
  EXPECT_EQ(read_whole(write("empty", ""), 0), "");
  EXPECT_THAT(error_of([&] { read_whole(path, text.size() - 1); }).message(),
              HasSubstr(path.string() + ": it is too long: expected at most 204799 bytes"));
}

TEST_F(WholeFilesTest, AFileThatCannotBeReadIsNamedWithTheReason) {
  const fs::path missing = folder_ / "missing";
  EXPECT_EQ(error_of([&] { read_whole(missing, 10); }).message(),
            "cannot read " + missing.string() + ": No such file or directory");
  EXPECT_EQ(error_of([&] { read_whole(folder_, 10); }).message(),
            "cannot read " + folder_.string() + ": Is a directory");
}

TEST_F(WholeFilesTest, AFilesVersionChangesWithItsBytesItsPermissionsAndItsPlace) {
  const fs::path path = folder_ / "file";
  EXPECT_EQ(file_version(path), "");
  std::set<std::string> versions{""};
  const auto expect_another = [&] {
    const std::string version = file_version(path);
    EXPECT_TRUE(versions.insert(version).second) << version;
    EXPECT_EQ(file_version(path), version);
  };
  write("file", "one");
  expect_another();
  write("file", "three");
  expect_another();
  fs::permissions(path, fs::perms::owner_read);
  expect_another();
  replace_whole(path, "seven");
  expect_another();
}

TEST_F(WholeFilesTest, AFileIsReplacedWholeAndNothingElseStaysBehind) {
  const fs::path path = folder_ / "file";
  replace_whole(path, "one");
  replace_whole(path, "two", FileAccess::kOwnerOnly);
  EXPECT_EQ(read(path), "two");
  EXPECT_EQ(mode_of(path), fs::perms::owner_read | fs::perms::owner_write);
  const fs::path taken = write("folder/inside", "x").parent_path();
  EXPECT_THAT(error_of([&] { replace_whole(taken, "three"); }).message(),
              HasSubstr("cannot replace " + taken.string() + ": "));
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFilesTest, AFileIsCreatedWholeUnlessItsNameIsTaken) {
  const fs::path path = folder_ / "file";
  EXPECT_TRUE(create_whole(path, "one", FileAccess::kOwnerOnly));
  EXPECT_FALSE(create_whole(path, "two"));
  EXPECT_EQ(read(path), "one");
  EXPECT_EQ(mode_of(path), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1u);
}

TEST_F(WholeFilesTest, AWriteIntoAFolderThatIsNotThereNamesThePathThatWasAskedFor) {
  const fs::path path = folder_ / "missing" / "token";
  EXPECT_EQ(error_of([&] { replace_whole(path, "x"); }).message(),
            "cannot create " + path.string() + ": No such file or directory");
}

TEST(LeftOver, OnlyNamesThatWritesOfWholeFilesChooseAreOnesThatACrashLeft) {
  EXPECT_TRUE(is_left_over("hosts.jsonl.0123abcd.new"));
  for (const char* name : {"hosts.jsonl", "hosts.new", "ann.new", "a.0123abcd", "a.0123abcg.new",
                           ".0123abc.new", "0123abcd.new", "a.bak.new", ""})
    EXPECT_FALSE(is_left_over(name)) << name;
}

}  // namespace
}  // namespace gangway
