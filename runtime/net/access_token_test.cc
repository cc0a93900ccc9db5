#include "runtime/net/access_token.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(AccessToken, ReadsBackWhatItPrintsAndNoTwoAreEqual) {
  const AccessToken one = AccessToken::random(), other = AccessToken::random();
  ASSERT_FALSE(one.is_none());
  EXPECT_EQ(to_text(one).size(), 64u);
  EXPECT_NE(to_text(one), to_text(other));
  const auto again = parse_token(to_text(one));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes, one.bytes);
}

TEST(AccessToken, TextsOfAnotherFormAreNoTokens) {
  const std::string text = to_text(AccessToken::random());
  for (const std::string& bad :
       {std::string(), text.substr(1), text + "0", text.substr(1) + "g", text.substr(1) + "\n",
        std::string(64, '0'), std::string(64, 'A')}) {
    EXPECT_FALSE(parse_token(bad)) << bad;
  }
  EXPECT_TRUE(AccessToken().is_none());
}

TEST(AccessToken, IsKnownByItsHashWhichDiffersInEitherHalf) {
  const AccessToken one = AccessToken::random();
  const TokenHash hash = hash_of(one);
  EXPECT_TRUE(same_hash(hash, *parse_token_hash(to_string(hash))));
  EXPECT_FALSE(same_hash(hash, {hash.high ^ 1, hash.low}));
  EXPECT_FALSE(same_hash(hash, {hash.high, hash.low ^ uint64_t{1} << 63}));
  EXPECT_FALSE(same_hash(hash, hash_of(AccessToken::random())));
  EXPECT_FALSE(parse_token_hash("12"));
}

}  // namespace
}  // namespace gangway
