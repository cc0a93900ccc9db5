// TLS of a client that has no certificate, like a browser's, Prometheus's or a stranger's.
//
// Threads: the reactor's thread. Suspends.
// Errors: KJ's, of a handshake that fails. Under TLS 1.3 a server that expects a certificate may
// refuse only after the client's handshake has ended.
#pragma once

#include <kj/compat/tls.h>

#include <string>

#include "runtime/fibers/await.h"
#include "runtime/net/transport.h"
#include "runtime/tls/tls_files.h"

namespace gangway {

// `folder`: has the authority whose servers are taken. `raw`: a connection without TLS so far.
inline Stream dial_without_certificate(const std::string& folder, Stream raw) {
  const TlsFiles files = read_tls_files(folder);
  const kj::TlsCertificate authority(kj::StringPtr(files.authority.c_str()));
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.trustedCertificates = kj::arrayPtr(&authority, 1);
  kj::TlsContext context(kj::mv(options));
  return await(context.wrapClient(kj::mv(raw), kServerName));
}

}  // namespace gangway
