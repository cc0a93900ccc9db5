#include "protocol/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(TokenFile, IsCreatedOnceForItsUserAlone) {
  const TempDir dir;
  const auto file = dir.path() / "state" / "gangway" / "token";
  const AccessToken token = read_or_create_token_file(file);
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(mode_of(file.parent_path()), 0700u);
  EXPECT_EQ(read_or_create_token_file(file).bytes, token.bytes);
  EXPECT_EQ(read_token_file(file).bytes, token.bytes);
  EXPECT_THAT(error_text_of([&] { create_token_file(file, AccessToken::random()); }),
              HasSubstr("it is there already"));
  EXPECT_EQ(read_token_file(file).bytes, token.bytes);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(file.parent_path()))
    ++files;
  EXPECT_EQ(files, 1u) << "nothing else stays behind";
}

TEST(TokenFile, ATokenFileThatOthersMayReadOrThatHasNoTokenIsRefused) {
  const TempDir dir;
  const auto file = dir.path() / "token";
  EXPECT_THAT(error_text_of([&] { read_token_file(file); }), HasSubstr("there is none"));
  create_token_file(file, AccessToken::random());
  chmod(file.c_str(), 0640);
  EXPECT_THAT(error_text_of([&] { read_token_file(file); }), HasSubstr("chmod 600"));
  chmod(file.c_str(), 0600);
  EXPECT_NO_THROW(read_token_file(file));
  for (const std::string& text : {std::string("hello\n"), std::string(), std::string(1000, 'a')}) {
    std::ofstream(file) << text;
    EXPECT_THAT(error_text_of([&] { read_token_file(file); }), HasSubstr("64 hexadecimal digits"));
  }
  EXPECT_THAT(error_text_of([&] { read_token_file(dir.path()); }), HasSubstr("token file"));
}

TEST(TokenFile, TheTokenFileIsTheOneNamedOrElseTheOneInTheUsersState) {
  setenv("XDG_STATE_HOME", "/x/state", 1);
  setenv("GANGWAY_TOKEN_FILE", "/x/said", 1);
  EXPECT_EQ(token_file("mine"), "mine");
  EXPECT_EQ(token_file(""), "/x/said");
  unsetenv("GANGWAY_TOKEN_FILE");
  EXPECT_EQ(token_file(""), "/x/state/gangway/token");
  setenv("HOME", "/x/ada", 1);
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(token_file(""), "/x/ada/.local/state/gangway/token");
}

TEST(TokenFile, TheTokenIsSentToAddressesThatDoNotKnowTheirPeers) {
  const TempDir dir;
  const auto file = dir.path() / "token";
  EXPECT_FALSE(shown_at("unix:@x", file));
  EXPECT_FALSE(shown_at("sim:controller", file));
  const auto shown = shown_at("127.0.0.1:7040", file);
  EXPECT_THAT(error_text_of([&] { shown(); }), HasSubstr("there is none"));
  const AccessToken token = read_or_create_token_file(file);
  EXPECT_EQ(shown().token.bytes, token.bytes);
  EXPECT_EQ(shown().where, file.string());
}

}  // namespace
}  // namespace gangway
