#include "runtime/tls/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace gangway::certificate_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kNowS = 1'800'000'000;  // 2027-01-15.

class CertificateTest : public testing::Test {
 protected:
  KeyedCertificate issued(CertifiedKind kind = CertifiedKind::kOwner) const {
    return issue(authority_, {kind, "ada", 7}, {}, {.begins_s = kNowS, .ends_s = kNowS + kDayS});
  }
  const KeyedCertificate authority_ =
      make_authority({.begins_s = kNowS, .ends_s = kNowS + 3650 * kDayS});
};

TEST_F(CertificateTest, ReadsBackWhomItIsFor) {
  for (const CertifiedKind kind : {CertifiedKind::kHost, CertifiedKind::kOwner}) {
    const Certificate read = read_certificate(issued(kind).certificate);
    EXPECT_EQ(read.name, (CertifiedName{kind, "ada", 7}));
    EXPECT_EQ(read.validity.begins_s, kNowS);
    EXPECT_EQ(read.validity.ends_s, kNowS + kDayS);
  }
}

TEST_F(CertificateTest, AValidityBeyondTheYear2050IsReadBack) {
  const int64_t late_s = kNowS + int64_t{40} * 365 * kDayS;
  const KeyedCertificate made =
      issue(authority_, {CertifiedKind::kOwner, "ada", 1}, {}, {kNowS, late_s});
  EXPECT_EQ(read_validity(made.certificate).ends_s, late_s);
}

TEST_F(CertificateTest, AnAuthorityIsNoHostAndNoOwner) {
  EXPECT_EQ(read_validity(authority_.certificate).ends_s, kNowS + 3650 * kDayS);
  EXPECT_THAT(error_text_of([&] { read_certificate(authority_.certificate); }),
              HasSubstr("its common name is \"gangway authority "));
}

TEST_F(CertificateTest, DamagedTextIsRefused) {
  const std::string whole = issued().certificate;
  for (const std::string& damaged :
       {std::string(), std::string("x"), whole.substr(0, whole.size() / 2),
        whole.substr(0, 60) + whole.substr(64), issued().key}) {
    const Error error = error_of([&] { read_certificate(damaged); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("certificate: expected one in PEM"));
  }
}

TEST_F(CertificateTest, AKeyOfAnotherCertificateIsRefused) {
  const KeyedCertificate one = issued(), other = issued();
  EXPECT_NO_THROW(require_key_of(one.certificate, one.key, "key.pem"));
  EXPECT_THAT(error_text_of([&] { require_key_of(one.certificate, other.key, "key.pem"); }),
              HasSubstr("key.pem is another certificate's key"));
  EXPECT_THAT(error_text_of([&] { require_key_of(one.certificate, "x", "key.pem"); }),
              HasSubstr("expected its private key in PEM"));
}

TEST_F(CertificateTest, NamesThatFitNoCertificateAreRefused) {
  const auto refused = [&](const CertifiedName& name, const std::vector<std::string>& addresses) {
    return error_text_of([&] { issue(authority_, name, addresses, {kNowS, kNowS + kDayS}); });
  };
  EXPECT_THAT(refused({CertifiedKind::kOwner, std::string(41, 'a'), 1}, {}), HasSubstr("1 to 40"));
  EXPECT_THAT(refused({CertifiedKind::kOwner, "a:b", 1}, {}), HasSubstr("letters, digits"));
  EXPECT_THAT(refused({CertifiedKind::kOwner, "ada", 0}, {}), HasSubstr("counted from 1"));
  EXPECT_THAT(refused({CertifiedKind::kOwner, "ada", 1}, {"10.0.0.1"}), HasSubstr("no addresses"));
  EXPECT_THAT(refused({CertifiedKind::kHost, "node7", 1}, {"a,DNS:evil"}),
              HasSubstr("expected a host's name or IP address"));
  EXPECT_THAT(error_text_of([] { make_authority({.begins_s = kNowS, .ends_s = kNowS}); }),
              HasSubstr("would end before it begins"));
}

TEST(EndWarningTest, BeginsAMonthAheadAndSaysWhenItEnds) {
  EXPECT_EQ(end_warning(kNowS + 31 * kDayS, kNowS), "");
  EXPECT_EQ(end_warning(kNowS + 30 * kDayS, kNowS), "ends on 2027-02-14, in 30 days");
  EXPECT_EQ(end_warning(kNowS + 1 * kDayS, kNowS), "ends on 2027-01-16, in 1 day");
  EXPECT_EQ(end_warning(kNowS + 10, kNowS), "ends on 2027-01-15, within a day");
  EXPECT_EQ(end_warning(kNowS - kDayS, kNowS), "has expired on 2027-01-14");
}

}  // namespace
}  // namespace gangway::certificate_test
