// tls_stream(): what KJ makes of a connection under TLS, as this tree's connections expect it.
//
// KJ's stream differs from a socket's in three ways, which this one evens out:
//
// - A peer that refuses this process's certificate says so in an alert, which arrives at the first
//   read after the handshake. It is thrown here as a kInvalid that says whose certificate was
//   refused, and why.
// - shutdownWrite() may be called again, and while a write is under way. Then the socket is shut,
//   since OpenSSL can't write its farewell into the middle of a record.
// - getFd() has nothing: no code may write to the socket itself (runtime/net/direct_sender.h).
//
// Threads: the reactor's thread.
// Ownership: the stream owns both; the encrypted one uses the socket.
#pragma once

#include <kj/async-io.h>

#include <optional>
#include <string>

#include "runtime/base/error.h"

namespace gangway::internal {

// `own`: whose certificate this process has, for messages: "host node7 (number 12)".
kj::Own<kj::AsyncIoStream> tls_stream(kj::Own<kj::AsyncIoStream> encrypted,
                                      kj::Own<kj::AsyncIoStream> socket, std::string own);

// `first`, which was read from the stream already, and what the stream has behind it.
kj::Own<kj::AsyncIoStream> behind_first_byte(kj::byte first, kj::Own<kj::AsyncIoStream> stream);

// The error that a peer's alert stands for; none if the exception is no alert.
std::optional<Error> error_of_alert(const kj::Exception& exception, const std::string& own);

}  // namespace gangway::internal
