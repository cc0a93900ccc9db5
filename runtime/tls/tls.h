// Tls: makes connections encrypted, with certificates of one authority on both sides.
//
// It is KJ's TLS, version 1.3 with host and owner certificates. KJ says of a certificate that it
// does not take no more than "certificate verify failed", and this class judges the certificates in
// its place: it sets OpenSSL's verify callback on KJ's context, which it learns of by OpenSSL's own
// hook for new contexts. The end that refuses learns during the handshake whose certificate is
// wrong, and how; the other learns it then or at its first read.
//
// A peer's certificate must be of this cluster's authority, valid now, name a host or an owner, and
// not be on the list of revoked ones. A client expects a host's. Browsers, Prometheus and kubelets
// show none (Clients::kAny): they get TLS 1.2 or later.
//
// Files that change are read again before the next handshake. A certificate or key that can't be
// read leaves the one before in use. A list of revoked ones that can't be read, or is gone, refuses
// everybody. Only owners, whom nobody dials, need none.
//
// Threads: the reactor's thread; accept() and dial() suspend.
// Ownership: a stream lives on without its Tls.
// Errors: as tls_files.h; accept() and dial() throw kInvalid for a peer that is refused or refuses,
// with whose certificate it is and why, and kUnavailable for one that goes away or takes too long.
// Cost: two signatures a handshake, under a millisecond; no session is resumed.
#pragma once

#include <kj/async-io.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/base/error.h"
#include "runtime/fibers/reactor.h"
#include "runtime/tls/certificate.h"

namespace gangway {

class Tls {
 public:
  // `on_unread`: called once for each change of the files after which they can't be read, so that
  // the certificate before stays in use. While the system refuses to read them for a reason that
  // passes, it is called at each handshake, and each tries again.
  explicit Tls(std::filesystem::path folder, std::function<void(const Error&)> on_unread = {});
  ~Tls();
  Tls(const Tls&) = delete;

  enum class Clients : uint8_t { kCertified, kAny };
  struct Secured {
    kj::Own<kj::AsyncIoStream> stream;
    std::optional<Certificate> peer;  // None: kAny.
  };
  Secured accept(Reactor& reactor, kj::Own<kj::AsyncIoStream> socket, Clients clients,
                 int64_t deadline_ns);
  // `address`: begins the messages.
  Secured dial(Reactor& reactor, kj::Own<kj::AsyncIoStream> socket, const std::string& address,
               int64_t deadline_ns);

  // This process's certificate.
  const Certificate& own() const;

  struct Contexts;

 private:
  std::shared_ptr<Contexts> current();
  std::set<uint32_t> revoked();

  const std::filesystem::path folder_;
  const std::function<void(const Error&)> on_unread_;
  bool needs_list_ = false;  // The folder was once a host's, or had a list.
  std::string version_;
  std::shared_ptr<Contexts> contexts_;
};

}  // namespace gangway
