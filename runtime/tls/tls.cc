#include "runtime/tls/tls.h"

#include <kj/compat/tls.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/cut.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/port.h"
#include "runtime/tls/tls_files.h"
#include "runtime/tls/tls_stream.h"

namespace gangway {
namespace {

using internal::to_kj_time;

// The findings of a handshake about the peer's certificate.
struct Handshake {
  const std::set<uint32_t>& revoked;
  std::optional<Certificate> peer;
  std::string why;  // Why the certificate is not taken; empty: it is, or there is none.
};

// The context, and the handshake whose connection, KJ makes just now on this thread. OpenSSL calls
// the two functions below for each new one.
thread_local SSL_CTX* new_context = nullptr;
thread_local Handshake* new_handshake = nullptr;

void note_context(void* context, void*, CRYPTO_EX_DATA*, int, long, void*) {
  new_context = static_cast<SSL_CTX*>(context);
}
void note_connection(void*, void*, CRYPTO_EX_DATA* data, int index, long, void*) {
  if (new_handshake != nullptr) CRYPTO_set_ex_data(data, index, new_handshake);
}

int handshake_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, note_connection, nullptr, nullptr);
  return index;
}
void watch_contexts() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, note_context, nullptr, nullptr);
  static_cast<void>(index);
}

std::string whose(X509* certificate) {
  const std::string subject = internal::subject_of(certificate);
  const std::optional<CertifiedName> name = parse_common_name(subject);
  return name ? cat("the certificate of ", to_text(*name))
              : cat("the certificate \"", cut(subject, size_t{80}), "\"");
}

// The end of a sentence that begins with whose().
std::string reason_of(int error, X509* certificate) {
  const Validity validity = internal::validity_of(certificate);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return cat(" has expired on ", date_text(validity.ends_s));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return cat(" begins on ", date_text(validity.begins_s),
                 ", after today by this machine's clock");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return cat(" is of another authority, \"", cut(internal::issuer_of(certificate), size_t{80}),
                 "\"");
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_HOSTNAME_MISMATCH: return ": expected a host's";
    default: return cat(": ", X509_verify_cert_error_string(error));
  }
}

int refuse(X509_STORE_CTX* store, Handshake& handshake, int error, const std::string& why) {
  // OpenSSL chooses by it the alert that tells the peer why.
  X509_STORE_CTX_set_error(store, error);
  handshake.why = why;
  return 0;
}

int judge_certificate(X509_STORE_CTX* store, Handshake& handshake) {
  X509* const leaf = X509_STORE_CTX_get0_cert(store);
  if (X509_verify_cert(store) != 1) {
    const int error = X509_STORE_CTX_get_error(store);
    // Only what has expired may be the authority's own certificate.
    const bool is_time =
        error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID;
    X509* const at_fault = X509_STORE_CTX_get_current_cert(store);
    X509* const shown = is_time && at_fault != nullptr ? at_fault : leaf;
    return refuse(store, handshake, error, whose(shown) + reason_of(error, shown));
  }
  handshake.peer = internal::certificate_of(leaf);
  if (!handshake.peer) {
    return refuse(store, handshake, X509_V_ERR_APPLICATION_VERIFICATION,
                  whose(leaf) + " names neither a host nor an owner");
  }
  if (handshake.revoked.contains(handshake.peer->name.number))
    return refuse(store, handshake, X509_V_ERR_CERT_REVOKED, whose(leaf) + " was revoked");
  return 1;
}

// Called by OpenSSL, through which nothing may be thrown.
int verify_certificate(X509_STORE_CTX* store, void*) {
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const handshake = static_cast<Handshake*>(SSL_get_ex_data(ssl, handshake_index()));
  if (handshake == nullptr) return 0;
  try {
    return judge_certificate(store, *handshake);
  } catch (...) {
    return refuse(store, *handshake, X509_V_ERR_UNSPECIFIED, "its certificate is malformed");
  }
}

// A context of KJ's that judges certificates as above.
kj::Own<kj::TlsContext> make_context(const TlsFiles& files, Tls::Clients clients) {
  watch_contexts();
  handshake_index();
  const bool is_certified = clients == Tls::Clients::kCertified;
  const kj::TlsCertificate authority(kj::StringPtr(files.authority.c_str()));
  const kj::TlsKeypair keypair{kj::TlsPrivateKey(kj::StringPtr(files.keyed.key.c_str())),
                               kj::TlsCertificate(kj::StringPtr(files.keyed.certificate.c_str()))};
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.verifyClients = is_certified;
  options.trustedCertificates = kj::arrayPtr(&authority, 1);
  options.minVersion = kj::TlsVersion::TLS_1_2;
  options.defaultKeypair = keypair;
  new_context = nullptr;
  auto context = kj::heap<kj::TlsContext>(options);
  SSL_CTX* const ssl = std::exchange(new_context, nullptr);
  GW_ASSERT(ssl != nullptr, "OpenSSL made no context");
  SSL_CTX_set_cert_verify_callback(ssl, verify_certificate, nullptr);
  // A resumed session would not be judged again.
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(ssl, 0);
  if (is_certified) SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION);
  return context;
}

// The text of OpenSSL in an exception of KJ's: "...; message = error:...:peer did not ...".
std::string openssl_text(const kj::Exception& exception) {
  const std::string text = exception.getDescription().cStr();
  const size_t last = text.rfind(':');
  return cut(last == text.npos ? text : text.substr(last + 1), size_t{200});
}

Error error_of_handshake(const kj::Exception& why, const Handshake& handshake,
                         const std::string& own) {
  if (!handshake.why.empty()) return {ErrorKind::kInvalid, cat("tls: ", handshake.why)};
  if (const std::optional<Error> refused = internal::error_of_alert(why, own)) return *refused;
  switch (why.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return {ErrorKind::kUnavailable, "tls: the peer hung up in the middle of the handshake"};
    case kj::Exception::Type::OVERLOADED:
      return {ErrorKind::kUnavailable, "tls: the peer takes too long for the handshake"};
    case kj::Exception::Type::UNIMPLEMENTED:
    case kj::Exception::Type::FAILED: break;
  }
  // KJ's words for a connection that ended before the peer's certificate came.
  if (std::string_view(why.getDescription().cStr()).find("peer provided no certificate") !=
      std::string_view::npos)
    return {ErrorKind::kUnavailable, "tls: the peer hung up in the middle of the handshake"};
  const std::string text = openssl_text(why);
  if (text.find("peer did not return a certificate") != text.npos)
    return {ErrorKind::kInvalid, "tls: the peer shows no certificate"};
  return {ErrorKind::kInvalid, cat("tls: the handshake failed: ", text)};
}

using Encrypted = kj::Own<kj::AsyncIoStream>;

// Begins a handshake by `begin`, within which KJ makes the connection, and waits for its end.
template <class Begin>
Encrypted shake_hands(Reactor& reactor, Handshake& handshake, const std::string& own,
                      int64_t deadline_ns, const Begin& begin) {
  new_handshake = &handshake;
  kj::Promise<Encrypted> begun = kj::evalNow(begin);
  new_handshake = nullptr;
  auto timed = reactor.port().timer().timeoutAt(to_kj_time(deadline_ns), kj::mv(begun));
  // Only KJ's exception tells an alert from other failures, so it is translated here.
  return await(timed.catch_([&](kj::Exception&& why) -> kj::Promise<Encrypted> {
    return to_kj(error_of_handshake(why, handshake, own));
  }));
}

// No stream is given out unless verify_certificate() has judged its peer, whatever KJ and OpenSSL
// make of their options.
void require_judged(const Handshake& handshake) {
  GW_ASSERT(handshake.peer, "tls: a handshake ended without the peer's certificate");
}
// A client has expected kServerName, which only a host's certificate has.
void require_host(const Handshake& judged) {
  GW_ASSERT(is_host(*judged.peer), "tls: ", to_text(judged.peer->name), " passes for a host");
}

// The socket stays the caller's.
Encrypted borrowed(kj::AsyncIoStream& socket) {
  return Encrypted(&socket, kj::NullDisposer::instance);
}

// Suspends until the peer has had time to read why it is refused. The system drops what was sent
// last when a socket is closed that holds bytes which nobody has read.
void let_alert_arrive(Reactor& reactor, kj::AsyncIoStream& socket) {
  constexpr int64_t kAtMostNs = 1'000'000'000;
  const kj::TimePoint until = to_kj_time(reactor.clock().now_ns() + kAtMostNs);
  // The peer may be gone already.
  static_cast<void>(result_of([&] {
    socket.shutdownWrite();
    std::array<kj::byte, 4096> dropped;
    size_t bytes = 0;
    do {
      auto read = kj::evalNow([&] { return socket.tryRead(dropped.data(), 1, dropped.size()); });
      bytes = await(reactor.port().timer().timeoutAt(until, kj::mv(read)));
    } while (bytes > 0);
  }));
}

}  // namespace

struct Tls::Contexts {
  explicit Contexts(const TlsFiles& files, std::set<uint32_t> r)
      : own(files.own),
        revoked(std::move(r)),
        certified(make_context(files, Clients::kCertified)),
        any(make_context(files, Clients::kAny)) {}

  Certificate own;
  std::set<uint32_t> revoked;
  kj::Own<kj::TlsContext> certified, any;
};

Tls::Tls(std::filesystem::path folder, std::function<void(const Error&)> on_unread)
    : folder_(std::move(folder)),
      on_unread_(std::move(on_unread)),
      version_(version_of_tls_files(folder_)) {
  const TlsFiles files = read_tls_files(folder_);
  needs_list_ = is_host(files.own);
  contexts_ = std::make_shared<Contexts>(files, revoked());
}

Tls::~Tls() = default;

std::shared_ptr<Tls::Contexts> Tls::current() {
  std::string version = version_of_tls_files(folder_);
  if (version == version_) return contexts_;
  const std::set<uint32_t> list = revoked();
  Result<std::shared_ptr<Contexts>> made =
      result_of([&] { return std::make_shared<Contexts>(read_tls_files(folder_), list); });
  // A certificate may be replaced before its key is. They are looked at again once both are.
  if (made.ok()) {
    contexts_ = made.take();
  } else {
    contexts_->revoked = list;
  }
  // Only now: a handshake after one that failed above fails too. Nor is this version done with if
  // the system refused for a reason that passes, such as too many open files.
  if (made.ok() || made.error().kind() == ErrorKind::kInvalid) version_ = std::move(version);
  if (!made.ok() && on_unread_) on_unread_(made.error());
  return contexts_;
}

std::set<uint32_t> Tls::revoked() {
  std::error_code error;
  const std::filesystem::file_status list = std::filesystem::status(folder_ / kRevokedFile, error);
  if (!needs_list_ && list.type() == std::filesystem::file_type::not_found) return {};
  needs_list_ = true;
  return read_revoked(folder_);
}

const Certificate& Tls::own() const { return contexts_->own; }

namespace {

// A connection from its handshake on.
class Attempt {
 public:
  Attempt(std::shared_ptr<Tls::Contexts> contexts, kj::Own<kj::AsyncIoStream> socket)
      : contexts_(std::move(contexts)), socket_(kj::heap<internal::TlsSocket>(kj::mv(socket))) {}

  // Suspends until the handshake has ended. `begin`: makes KJ's connection over socket().
  template <class Begin>
  Result<Encrypted> run(Reactor& reactor, int64_t deadline_ns, const Begin& begin) {
    return result_of(
        [&] { return shake_hands(reactor, handshake_, own_name_, deadline_ns, begin); });
  }
  Tls::Secured secured(Encrypted encrypted) {
    return {internal::tls_stream(kj::mv(encrypted), kj::mv(socket_), own_name_), handshake_.peer};
  }

  Tls::Contexts& contexts() { return *contexts_; }
  internal::TlsSocket& socket() { return *socket_; }
  const Handshake& handshake() const { return handshake_; }

 private:
  const std::shared_ptr<Tls::Contexts> contexts_;
  kj::Own<internal::TlsSocket> socket_;
  const std::string own_name_ = to_text(contexts_->own.name);
  Handshake handshake_{contexts_->revoked, {}, {}};
};

}  // namespace

Tls::Secured Tls::accept(Reactor& reactor, kj::Own<kj::AsyncIoStream> socket, Clients clients,
                         int64_t deadline_ns) {
  Attempt attempt(current(), kj::mv(socket));
  Contexts& contexts = attempt.contexts();
  kj::TlsContext& context = *(clients == Clients::kAny ? contexts.any : contexts.certified);
  Result<Encrypted> encrypted = attempt.run(
      reactor, deadline_ns, [&] { return context.wrapServer(borrowed(attempt.socket())); });
  if (!encrypted.ok()) {
    const Error& why = encrypted.error();
    if (why.kind() == ErrorKind::kInvalid) let_alert_arrive(reactor, attempt.socket());
    throw Error(why);
  }
  if (clients == Clients::kCertified) require_judged(attempt.handshake());
  return attempt.secured(encrypted.take());
}

Tls::Secured Tls::dial(Reactor& reactor, kj::Own<kj::AsyncIoStream> socket,
                       const std::string& address, int64_t deadline_ns) {
  Attempt attempt(current(), kj::mv(socket));
  Result<Encrypted> encrypted = attempt.run(reactor, deadline_ns, [&] {
    return attempt.contexts().certified->wrapClient(borrowed(attempt.socket()), kServerName);
  });
  if (encrypted.ok()) {
    require_judged(attempt.handshake());
    require_host(attempt.handshake());
    return attempt.secured(encrypted.take());
  }
  const Error& why = encrypted.error();
  if (why.kind() == ErrorKind::kCancelled) throw Error(why);
  throw Error(why.kind(), cat("connect: ", address, ": ", why.message()), {},
              why.kind() == ErrorKind::kUnavailable
                  ? "does it serve TLS? A controller does if it was started with --tls"
                  : why.hint());
}

}  // namespace gangway
