#include "runtime/tls/authority_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "runtime/base/durable_file.h"
#include "runtime/os/temp_dir.h"
#include "runtime/tls/tls_files.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kNowS = 1'800'000'000;  // 2027-01-15.

class AuthorityFolderTest : public testing::Test {
 protected:
  AuthorityFolderTest() { make_authority_folder(authority_, kNowS); }

  Certificate issued(const char* to, const CertificateOrder& order, int64_t now_s = kNowS) const {
    return issue_folder(authority_, dir_.path() / to, order, now_s);
  }
  static std::string text_of_file(const std::filesystem::path& file) {
    return read_whole(file, size_t{1} << 20);
  }

  const TempDir dir_;
  const std::filesystem::path authority_ = dir_.path() / "authority";
};

TEST_F(AuthorityFolderTest, IssuesFoldersThatAProcessReads) {
  const Certificate host = issued(
      "node7.tls",
      {.kind = CertifiedKind::kHost, .name = "node7", .addresses = {"10.0.0.7", "node7.lan"}});
  const Certificate owner = issued("ada.tls", {.name = "ada", .days = 20});
  EXPECT_EQ(host.name, (CertifiedName{CertifiedKind::kHost, "node7", 1}));
  EXPECT_EQ(owner.name, (CertifiedName{CertifiedKind::kOwner, "ada", 2}));
  EXPECT_EQ(owner.validity.ends_s, kNowS + 20 * kDayS);
  const TlsFiles files = read_tls_files(dir_.path() / "node7.tls");
  EXPECT_EQ(files.own.name, host.name);
  EXPECT_EQ(files.authority, text_of_file(authority_ / kAuthorityFile));
  EXPECT_EQ(text_of_file(authority_ / "issued"),
            "1 host node7 2028-01-15\n2 owner ada 2027-02-04\n");
}

TEST_F(AuthorityFolderTest, FilesAreForTheirUserAlone) {
  issued("ada.tls", {.name = "ada"});
  for (const auto& folder : {authority_, dir_.path() / "ada.tls"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename() == ".lock") continue;
      struct stat status{};
      ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
    }
  }
}

TEST_F(AuthorityFolderTest, NothingIsWrittenWhereOthersMayWrite) {
  const std::filesystem::path open = dir_.path() / "open";
  std::filesystem::create_directory(open);
  std::filesystem::permissions(open, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  const auto says_so = HasSubstr("others may write to this folder");
  EXPECT_THAT(error_text_of([&] { issued("open", {.name = "ada"}); }), says_so);
  EXPECT_THAT(error_text_of([&] { make_authority_folder(open, kNowS); }), says_so);
  EXPECT_TRUE(std::filesystem::is_empty(open));
}

TEST_F(AuthorityFolderTest, NothingIsOverwritten) {
  issued("ada.tls", {.name = "ada"});
  const std::string key = text_of_file(dir_.path() / "ada.tls" / kKeyFile);
  EXPECT_THAT(error_text_of([&] { issued("ada.tls", {.name = "ada"}); }),
              HasSubstr("is there already"));
  EXPECT_THAT(error_text_of([&] { make_authority_folder(authority_, kNowS); }),
              HasSubstr("is there already"));
  EXPECT_EQ(text_of_file(dir_.path() / "ada.tls" / kKeyFile), key);
  EXPECT_EQ(issued("bob.tls", {.name = "bob"}).name.number, 2u);
}

TEST_F(AuthorityFolderTest, ACertificateEndsWithItsAuthorityAtTheLatest) {
  const int64_t ends_s = kNowS + kAuthorityDays * kDayS;
  EXPECT_EQ(issued("late", {.name = "ada"}, ends_s - kDayS).validity.ends_s, ends_s);
  EXPECT_THAT(error_text_of([&] { issued("later", {.name = "ada"}, ends_s + kDayS); }),
              HasSubstr("has expired on"));
}

TEST_F(AuthorityFolderTest, AFolderWithoutAnAuthoritySaysHowToMakeOne) {
  EXPECT_THAT(error_text_of([&] {
                issue_folder(dir_.path() / "none", dir_.path() / "x", {.name = "ada"}, kNowS);
              }),
              HasSubstr("gangway cert init"));
}

TEST_F(AuthorityFolderTest, AMissingForeignOrOpenFileOfAFolderIsNamed) {
  issued("ada.tls", {.name = "ada"});
  issued("bob.tls", {.name = "bob"});
  const std::filesystem::path ada = dir_.path() / "ada.tls", bob = dir_.path() / "bob.tls";
  const auto refused = [&] { return error_text_of([&] { read_tls_files(ada); }); };
  std::filesystem::permissions(ada / kKeyFile, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(refused(), HasSubstr("key.pem: others may read or write it"));
  std::filesystem::remove(ada / kKeyFile);
  EXPECT_THAT(refused(), HasSubstr("key.pem: there is none"));
  std::filesystem::copy_file(bob / kKeyFile, ada / kKeyFile);
  EXPECT_THAT(refused(), HasSubstr("is another certificate's key"));
  std::ofstream(ada / kCertificateFile) << "x";
  EXPECT_THAT(refused(), HasSubstr("certificate.pem: certificate: expected one in PEM"));
}

TEST_F(AuthorityFolderTest, RevokedNumbersAreKeptInTheFolder) {
  issued("node7.tls", {.kind = CertifiedKind::kHost, .name = "node7"});
  const std::filesystem::path folder = dir_.path() / "node7.tls";
  EXPECT_TRUE(read_revoked(folder).empty());
  const std::string before = version_of_tls_files(folder);
  EXPECT_TRUE(revoke(folder, 12));
  EXPECT_TRUE(revoke(folder, 3));
  EXPECT_FALSE(revoke(folder, 12));
  EXPECT_NE(version_of_tls_files(folder), before);
  EXPECT_THAT(read_revoked(folder), ElementsAre(3u, 12u));
  std::ofstream(folder / kRevokedFile) << "3\nada\n";
  EXPECT_THAT(error_text_of([&] { read_revoked(folder); }),
              HasSubstr("revoked: line 2: expected the number of a certificate"));
  EXPECT_THAT(error_text_of([&] { revoke(authority_, 1); }), HasSubstr("certificate.pem"));
}

TEST_F(AuthorityFolderTest, AListOfRevokedNumbersThatIsGoneIsNoEmptyList) {
  const CertificateOrder order{.kind = CertifiedKind::kHost, .name = "node7"};
  issued("node7.tls", order);
  const std::filesystem::path folder = dir_.path() / "node7.tls";
  revoke(folder, 12);
  for (const char* name : {kAuthorityFile, kCertificateFile, kKeyFile})
    std::filesystem::remove(folder / name);
  issued("node7.tls", order);  // A renewal in the same folder.
  EXPECT_THAT(read_revoked(folder), ElementsAre(12u));
  std::filesystem::remove(folder / kRevokedFile);
  const auto says_so = HasSubstr("there is no list of revoked certificates");
  EXPECT_THAT(error_text_of([&] { read_revoked(folder); }), says_so);
  // A list of the newest number alone would let the others in again.
  EXPECT_THAT(error_text_of([&] { revoke(folder, 13); }), says_so);
}

}  // namespace
}  // namespace gangway
