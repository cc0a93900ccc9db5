#include "runtime/os/user.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/plain_name.h"

namespace gangway {
namespace {

TEST(User, HasThePlainNameThatTheSystemKnowsOrItsNumber) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_name(4'000'000'001), "uid-4000000001");
  EXPECT_EQ(own_user_name(), user_name(geteuid()));
  EXPECT_TRUE(is_plain_name(own_user_name()));
}

TEST(PlainName, IsOneTo64LettersDigitsDashesUnderscoresAndDots) {
  EXPECT_TRUE(is_plain_name("ada"));
  EXPECT_TRUE(is_plain_name("team_7.night-shift"));
  EXPECT_TRUE(is_plain_name(std::string(64, 'x')));
  for (const std::string& name :
       {std::string(), std::string(65, 'x'), std::string("a b"), std::string("a/b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa4")}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
}

}  // namespace
}  // namespace gangway
