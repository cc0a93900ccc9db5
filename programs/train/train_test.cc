#include "programs/train/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/temp_folder.h"

namespace gangway::programs {
namespace {

using testing::HasSubstr;
using TrainTest = FolderTest;

TEST_F(TrainTest, AnAddressThatCantBeReadIsNamedBeforeAnythingElseIsWrong) {
  for (const char* address : {"local:2by2", "local:0x4", "local:2x2x2", "local:"}) {
    TrainOptions options = quickstart_options();
    options.cluster = address;
    options.config.batch = 3;  // Not to be shared by four devices.
    options.out = folder_ / "out";
    try {
      train(options);
      FAIL() << address << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(cat("\"", address, "\" is no local cluster")));
    }
  }
}

}  // namespace
}  // namespace gangway::programs
