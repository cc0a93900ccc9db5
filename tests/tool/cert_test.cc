// `gangway cert`: makes an authority and certificates, and revokes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/os/temp_dir.h"
#include "runtime/tls/tls_files.h"
#include "tests/tool/run_tool.h"

namespace gangway::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CertTest : public testing::Test {
 protected:
  std::string in(const char* name) const { return (folder_.path() / name).string(); }
  Ended cert(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "cert");
    arguments.insert(arguments.end(), {"--authority", in("authority")});
    return gangway(std::move(arguments));
  }

  const TempDir folder_;
};

TEST_F(CertTest, MakesCertificatesThatSayWhoseTheyAre) {
  ASSERT_EQ(cert({"init"}).status, 0);
  const Ended host = cert({"host", "node7", "--address", "10.0.0.7", "--out", in("node7")});
  EXPECT_EQ(host.status, 0) << host.text;
  EXPECT_THAT(host.text, HasSubstr(in("node7") + ": host node7 (number 1), until 20"));
  EXPECT_THAT(host.text, HasSubstr("into its old folder"));
  EXPECT_TRUE(read_revoked(in("node7")).empty());
  const Ended owner = cert({"owner", "ada", "--days", "30", "--out", in("ada")});
  EXPECT_THAT(owner.text, HasSubstr("owner ada (number 2), until 20"));
  EXPECT_EQ(read_tls_files(in("node7")).own.name.kind, CertifiedKind::kHost);
  EXPECT_EQ(read_tls_files(in("ada")).own.name.name, "ada");
}

TEST_F(CertTest, RefusalsSayWhatToDo) {
  const Ended none = cert({"owner", "ada", "--out", in("ada")});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.text, AllOf(HasSubstr("there is no authority in"), HasSubstr("cert init")));
  ASSERT_EQ(cert({"init"}).status, 0);
  EXPECT_THAT(cert({"init"}).text, HasSubstr("is there already"));
  ASSERT_EQ(cert({"owner", "ada", "--out", in("ada")}).status, 0);
  EXPECT_THAT(cert({"owner", "ada", "--out", in("ada")}).text, HasSubstr("is there already"));
  EXPECT_THAT(cert({"owner", "a:b", "--out", in("x")}).text, HasSubstr("letters, digits"));
  EXPECT_EQ(cert({"owner", "bob", "--days", "0", "--out", in("x")}).status, 2);
  EXPECT_EQ(gangway({"cert"}).status, 2);
}

TEST_F(CertTest, ARevokedNumberIsInTheControllersFolder) {
  ASSERT_EQ(cert({"init"}).status, 0);
  ASSERT_EQ(cert({"host", "node7", "--out", in("node7")}).status, 0);
  EXPECT_THAT(gangway({"cert", "revoke", "2", "--tls", in("node7")}).text,
              HasSubstr("number 2 is revoked for the controller with the certificate of host node7 "
                        "(number 1)"));
  EXPECT_THAT(gangway({"cert", "revoke", "2", "--tls", in("node7")}).text,
              HasSubstr("was revoked already"));
  EXPECT_THAT(read_revoked(in("node7")), testing::ElementsAre(2u));
  EXPECT_EQ(gangway({"cert", "revoke", "0", "--tls", in("node7")}).status, 2);
  const Ended nowhere = gangway({"cert", "revoke", "2"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.text, HasSubstr("--tls"));
}

TEST_F(CertTest, ANumberIsNotRevokedWhereNoControllerReadsIt) {
  ASSERT_EQ(cert({"init"}).status, 0);
  ASSERT_EQ(cert({"owner", "ada", "--out", in("ada")}).status, 0);
  const Ended ended = gangway({"cert", "revoke", "2", "--tls", in("ada")});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.text,
              HasSubstr("it is that of owner ada (number 1), which no controller reads"));
  EXPECT_FALSE(std::filesystem::exists(in("ada") + "/revoked"));
}

}  // namespace
}  // namespace gangway::tool_test
