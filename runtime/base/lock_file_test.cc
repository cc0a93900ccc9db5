#include "runtime/base/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::StartsWith;

class LockFileTest : public FolderTest {};

TEST_F(LockFileTest, ASecondLockNamesTheProcessThatHoldsTheFile) {
  const LockFile first(folder_ / "lock");
  EXPECT_TRUE(first.is_held());
  const LockFile second(folder_ / "lock");
  EXPECT_FALSE(second.is_held());
  EXPECT_THAT(second.holder(), StartsWith(cat("process ", getpid(), " on ")));
}

TEST_F(LockFileTest, ALockFileIsFreeOnceItsHolderHasEnded) {
  {
    const LockFile first(folder_ / "lock");
  }
  EXPECT_TRUE(LockFile(folder_ / "lock").is_held());
}

TEST_F(LockFileTest, AFileThatCannotBeCreatedIsNamed) {
  write("file", "");
  EXPECT_THROW(LockFile(folder_ / "file/lock"), Error);
}

}  // namespace
}  // namespace gangway
