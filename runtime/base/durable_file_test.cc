#include "runtime/base/durable_file.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace gangway {
namespace {

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

}  // namespace
}  // namespace gangway
