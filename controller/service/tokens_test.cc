#include "controller/service/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "protocol/token_file.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class TokensTest : public testing::Test {
 protected:
  AccessToken add(const std::string& owner) {
    const AccessToken token = AccessToken::random();
    add_owner_token(file_, {owner, hash_of(token)});
    return token;
  }

  TempDir dir_;
  std::filesystem::path file_ = dir_.path() / "gangway" / "token";
};

TEST_F(TokensTest, ATokenIdentifiesItsOwnerAndUnknownTokensIdentifyNobody) {
  TokenTable table(file_, "ada");
  EXPECT_EQ(table.owner_of(read_token_file(file_)), "ada");
  EXPECT_EQ(table.owner_of(AccessToken::random()), std::nullopt);
  EXPECT_EQ(table.owner_of(AccessToken{}), std::nullopt);
}

TEST_F(TokensTest, TokensThatAreAddedAndRemovedCountFromTheNextConnectionOn) {
  TokenTable table(file_, "ada");
  const AccessToken bob = add("bob"), eve = add("eve"), bob_again = add("bob");
  EXPECT_EQ(table.owner_of(bob), "bob");
  EXPECT_EQ(table.owner_of(eve), "eve");
  EXPECT_EQ(table.owner_of(bob_again), "bob");
  EXPECT_EQ(remove_owner_tokens(file_, "bob"), 2u);
  EXPECT_EQ(remove_owner_tokens(file_, "bob"), 0u);
  EXPECT_EQ(table.owner_of(bob), std::nullopt);
  EXPECT_EQ(table.owner_of(bob_again), std::nullopt);
  EXPECT_EQ(table.owner_of(eve), "eve");
  EXPECT_EQ(table.owner_of(read_token_file(file_)), "ada");
}

TEST_F(TokensTest, NoTokenStandsInTheFileOfOwnersWhichOthersCantRead) {
  const AccessToken bob = add("bob");
  const std::string path = file_.string() + ".owners";
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, HasSubstr("bob "));
  EXPECT_THAT(text, testing::Not(HasSubstr(to_text(bob).substr(0, 16))));
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(TokensTest, AnOwnerHasAPlainName) {
  EXPECT_THAT(error_text_of([&] { add("a b"); }), HasSubstr("letters, digits"));
  EXPECT_THAT(error_text_of([&] { add("a\nroot 0"); }), HasSubstr("letters, digits"));
}

TEST_F(TokensTest, AFileOfOwnersThatCannotBeReadIsNotTakenForAnEmptyOne) {
  add("bob");
  const std::filesystem::path owners = file_.string() + ".owners";
  std::filesystem::remove(owners);
  std::filesystem::create_directory(owners);
  EXPECT_THAT(error_text_of([&] { owner_tokens(file_); }),
              HasSubstr("cannot read " + owners.string() + ": Is a directory"));
}

TEST_F(TokensTest, AFileThatIsBrokenHasNoTokensAndNamesTheLine) {
  TokenTable table(file_, "ada");
  const AccessToken bob = add("bob");
  std::ofstream(file_.string() + ".owners", std::ios::app) << "eve\n";
  EXPECT_EQ(table.owner_of(bob), std::nullopt);
  EXPECT_EQ(table.owner_of(read_token_file(file_)), "ada");
  EXPECT_THAT(error_text_of([&] { owner_tokens(file_); }), HasSubstr("token.owners:2: expected"));
}

}  // namespace
}  // namespace gangway
