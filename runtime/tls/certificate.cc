#include "runtime/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "runtime/base/error.h"
#include "runtime/base/plain_name.h"

namespace gangway {
namespace {

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// The newest error of OpenSSL on this thread; the older ones are dropped.
std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

// A step that only fails when memory is short or OpenSSL is broken.
void require_done(bool done, const char* what) {
  if (!done)
    throw Error(ErrorKind::kUnavailable, cat("certificate: ", what, ": ", openssl_error()));
}

Owned<BIO> reader_of(std::string_view text) {
  Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  require_done(bio != nullptr, "reading");
  return bio;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

// A key that is encrypted would ask for its password on the terminal.
int no_password(char*, int, int, void*) { return -1; }

Owned<X509> parse_certificate(std::string_view pem) {
  Owned<X509> certificate(PEM_read_bio_X509(reader_of(pem).get(), nullptr, no_password, nullptr));
  GW_REQUIRE(certificate != nullptr, "certificate: expected one in PEM: ", openssl_error());
  return certificate;
}

Owned<EVP_PKEY> parse_key(std::string_view pem) {
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, no_password, nullptr));
  GW_REQUIRE(key != nullptr,
             "certificate: expected its private key in PEM, without a password: ", openssl_error());
  return key;
}

std::string pem_of(X509* certificate) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  require_done(bio != nullptr && PEM_write_bio_X509(bio.get(), certificate) == 1, "writing it");
  return text_of(bio.get());
}

std::string pem_of(EVP_PKEY* key) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  require_done(bio != nullptr && PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0,
                                                          nullptr, nullptr) == 1,
               "writing its key");
  return text_of(bio.get());
}

void set_common_name(X509* certificate, const std::string& text) {
  require_done(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                          reinterpret_cast<const unsigned char*>(text.c_str()), -1,
                                          -1, 0) == 1,
               "its common name");
}

// A certificate that has everything but its issuer, its extensions and its signature.
Owned<X509> begin_certificate(const std::string& name, uint64_t number, const Validity& validity,
                              EVP_PKEY* key) {
  GW_REQUIRE(validity.begins_s < validity.ends_s, "certificate: it would end before it begins");
  Owned<X509> certificate(X509_new());
  require_done(certificate != nullptr, "making one");
  set_common_name(certificate.get(), name);
  require_done(
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
          ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), number) == 1 &&
          ASN1_TIME_set(X509_getm_notBefore(certificate.get()), validity.begins_s) != nullptr &&
          ASN1_TIME_set(X509_getm_notAfter(certificate.get()), validity.ends_s) != nullptr &&
          X509_set_pubkey(certificate.get(), key) == 1,
      "filling it in");
  return certificate;
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require_done(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1,
               "an extension");
}

void sign(X509* certificate, EVP_PKEY* key) {
  require_done(X509_sign(certificate, key, EVP_sha256()) > 0, "signing it");
}

Owned<EVP_PKEY> new_key() {
  Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  require_done(key != nullptr, "making a key");
  return key;
}

uint64_t random_number() {
  uint64_t number = 0;
  require_done(RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) == 1,
               "drawing a number");
  return number >> 1;  // Serial numbers are positive.
}

bool is_ip_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

// The alternative names of a host's certificate, as OpenSSL reads them.
std::string alternative_names(const std::string& name, const std::vector<std::string>& addresses) {
  std::string text = cat("DNS:", kServerName, ",DNS:", name);
  for (const std::string& address : addresses) {
    const bool is_ip = is_ip_address(address);
    GW_REQUIRE(is_ip || is_plain_name(address), "certificate: ", address,
               ": expected a host's name or IP address");
    text += cat(is_ip ? ",IP:" : ",DNS:", address);
  }
  return text;
}

int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  GW_REQUIRE(ASN1_TIME_to_tm(time, &parts) == 1, "certificate: its validity is malformed");
  return timegm(&parts);
}

std::string common_name_in(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return {};
  std::string text(reinterpret_cast<char*>(utf8), static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return text;
}

}  // namespace

KeyedCertificate make_authority(const Validity& validity) {
  const Owned<EVP_PKEY> key = new_key();
  std::array<char, 9> suffix{};  // Eight digits.
  const uint64_t number = random_number();
  std::snprintf(suffix.data(), suffix.size(), "%08x", static_cast<unsigned>(number));
  const Owned<X509> certificate =
      begin_certificate(cat("gangway authority ", suffix.data()), number, validity, key.get());
  X509* const self = certificate.get();
  require_done(X509_set_issuer_name(self, X509_get_subject_name(self)) == 1, "its issuer");
  // No authority below this one.
  add_extension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(self, self, NID_subject_key_identifier, "hash");
  sign(self, key.get());
  return {pem_of(self), pem_of(key.get())};
}

KeyedCertificate issue(const KeyedCertificate& authority, const CertifiedName& name,
                       const std::vector<std::string>& addresses, const Validity& validity) {
  const bool is_host = name.kind == CertifiedKind::kHost;
  GW_REQUIRE(can_be_certified(name.name), "certificate: \"", name.name, "\": expected 1 to ",
             kCertifiedNameBytesMax, " letters, digits, '-', '_' or '.'");
  GW_REQUIRE(is_host || addresses.empty(), "certificate: an owner has no addresses");
  GW_REQUIRE(name.number > 0, "certificate: its number is 0: they are counted from 1");
  const Owned<X509> issuer = parse_certificate(authority.certificate);
  const Owned<EVP_PKEY> issuers_key = parse_key(authority.key);
  const Owned<EVP_PKEY> key = new_key();
  const Owned<X509> certificate =
      begin_certificate(common_name(name), name.number, validity, key.get());
  X509* const it = certificate.get();
  require_done(X509_set_issuer_name(it, X509_get_subject_name(issuer.get())) == 1, "its issuer");
  add_extension(it, issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(it, issuer.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(it, issuer.get(), NID_ext_key_usage,
                is_host ? "serverAuth,clientAuth" : "clientAuth");
  add_extension(it, issuer.get(), NID_subject_key_identifier, "hash");
  add_extension(it, issuer.get(), NID_authority_key_identifier, "keyid:always");
  if (is_host)
    add_extension(it, issuer.get(), NID_subject_alt_name, alternative_names(name.name, addresses));
  sign(it, issuers_key.get());
  return {pem_of(it), pem_of(key.get())};
}

Certificate read_certificate(std::string_view pem) {
  const Owned<X509> certificate = parse_certificate(pem);
  const std::optional<Certificate> read = internal::certificate_of(certificate.get());
  GW_REQUIRE(read, "certificate: its common name is \"", internal::subject_of(certificate.get()),
             "\": expected host:NAME:NUMBER or owner:NAME:NUMBER");
  return *read;
}

Validity read_validity(std::string_view pem) {
  return internal::validity_of(parse_certificate(pem).get());
}

void require_key_of(std::string_view certificate, std::string_view key, std::string_view what) {
  const bool is_its =
      X509_check_private_key(parse_certificate(certificate).get(), parse_key(key).get()) == 1;
  ERR_clear_error();
  GW_REQUIRE(is_its, "certificate: ", what, " is another certificate's key");
}

std::string date_text(int64_t time_s) {
  const std::time_t time = time_s;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

std::string end_warning(int64_t ends_s, int64_t now_s) {
  const int64_t left_s = ends_s - now_s;
  if (left_s > kWarnBeforeEndS) return {};
  if (left_s < 0) return cat("has expired on ", date_text(ends_s));
  const int64_t days = left_s / kDayS;
  return cat("ends on ", date_text(ends_s), days == 0 ? ", within a day" : cat(", in ", days),
             days == 0   ? ""
             : days == 1 ? " day"
                         : " days");
}

namespace internal {

std::optional<Certificate> certificate_of(x509_st* certificate) {
  std::optional<CertifiedName> name = parse_common_name(subject_of(certificate));
  if (!name) return std::nullopt;
  return Certificate{*std::move(name), validity_of(certificate)};
}

std::string subject_of(x509_st* certificate) {
  return common_name_in(X509_get_subject_name(certificate));
}

std::string issuer_of(x509_st* certificate) {
  return common_name_in(X509_get_issuer_name(certificate));
}

Validity validity_of(x509_st* certificate) {
  return {seconds_of(X509_get0_notBefore(certificate)),
          seconds_of(X509_get0_notAfter(certificate))};
}

}  // namespace internal
}  // namespace gangway
