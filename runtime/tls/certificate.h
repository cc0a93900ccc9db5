// Certificates of a cluster: its authority's, and those that the authority issues to hosts and
// owners. All keys are of the curve P-256, and everything is text in PEM.
//
// A host's certificate names, besides its common name (certified_name.h), the addresses at which
// browsers and Prometheus reach the host, and kServerName, by which any client knows a host's
// certificate from an owner's: only hosts serve.
//
// Threads: any; functions of values.
// Errors: kInvalid for text that is no certificate or key of this kind, with what is wrong.
// Cost: issuing one takes about a millisecond.
//
// Example:
//   const auto authority = make_authority({.begins_s = now_s, .ends_s = now_s + 3650 * kDayS});
//   const auto host = issue(authority, {CertifiedKind::kHost, "node7", 1}, {"10.0.0.7"}, year);
//   read_certificate(host.certificate).name.name;  // "node7"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tls/certified_name.h"

// OpenSSL's type of a certificate; only sources include its headers.
struct x509_st;

namespace gangway {

// The name that every host's certificate has, and that clients expect of a server.
inline constexpr char kServerName[] = "host.gangway";

// Seconds since 1970; the certificate is valid from the first up to and including the last.
struct Validity {
  int64_t begins_s = 0;
  int64_t ends_s = 0;
};

// A certificate and its private key, in PEM.
struct KeyedCertificate {
  std::string certificate;
  std::string key;
};

// A certificate of a host or an owner, as read.
struct Certificate {
  CertifiedName name;
  Validity validity;
};
inline bool is_host(const Certificate& certificate) {
  return certificate.name.kind == CertifiedKind::kHost;
}

// A new authority, whose name is random so that two of them can be told apart in messages.
KeyedCertificate make_authority(const Validity& validity);

// `addresses`: names and IP addresses of a host. kInvalid if one is neither, or an owner has some.
KeyedCertificate issue(const KeyedCertificate& authority, const CertifiedName& name,
                       const std::vector<std::string>& addresses, const Validity& validity);

Certificate read_certificate(std::string_view pem);
// The validity of any certificate, an authority's too.
Validity read_validity(std::string_view pem);
// Throws kInvalid if the key is not the certificate's. `what`: "key.pem", for the message.
void require_key_of(std::string_view certificate, std::string_view key, std::string_view what);

// "2027-03-01", in UTC.
std::string date_text(int64_t time_s);
inline constexpr int64_t kDayS = 24 * 3600;
// Time left until the end of a certificate about which users are warned: a month.
inline constexpr int64_t kWarnBeforeEndS = 30 * kDayS;
// "ends on 2027-03-01, in 12 days", or "has expired on 2027-03-01". Empty if it is valid for more
// than kWarnBeforeEndS.
std::string end_warning(int64_t ends_s, int64_t now_s);

namespace internal {

// Facts of a certificate that OpenSSL has read. No value: its common name is not one of ours.
std::optional<Certificate> certificate_of(x509_st* certificate);
// The common name of its subject, whatever it is.
std::string subject_of(x509_st* certificate);
std::string issuer_of(x509_st* certificate);
Validity validity_of(x509_st* certificate);

}  // namespace internal
}  // namespace gangway
