// tls_stream(): what KJ makes of a connection under TLS, as this tree's connections expect it.
//
// KJ's stream differs from a socket's in some ways, which this one evens out:
//
// - A write of KJ's ends when its bytes are encrypted, and up to 8 KiB are lost if the stream is
//   then destroyed. Here it ends when the system has taken them.
// - A read of no bytes, which OpenSSL takes for the end of the connection, ends at once.
// - A peer that refuses this process's certificate says so in an alert, which arrives at the first
//   read after the handshake. It is thrown here as a kInvalid that says whose certificate was
//   refused, and why. A damaged record is thrown as a lost connection (kUnavailable).
// - shutdownWrite() may be called again, and while a write is under way. Then the socket is shut,
//   since OpenSSL can't write its farewell into the middle of a record.
// - getFd() has nothing: no code may write to the socket itself (runtime/net/direct_sender.h).
//
// In one way it stays different: once the peer has ended its side, nothing more can be written.
//
// Threads: the reactor's thread.
// Ownership: the stream owns both; the encrypted one uses the socket.
#pragma once

#include <kj/async-io.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace gangway::internal {

// A stream that passes all calls on to another, of which it hides the descriptor.
class OverStream : public kj::AsyncIoStream {
 public:
  explicit OverStream(kj::Own<kj::AsyncIoStream> stream) : stream_(kj::mv(stream)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    return stream_->tryRead(buffer, min_bytes, max_bytes);
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    return stream_->write(buffer, size);
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return stream_->write(pieces);
  }
  kj::Promise<void> whenWriteDisconnected() override { return stream_->whenWriteDisconnected(); }
  void shutdownWrite() override { stream_->shutdownWrite(); }
  void abortRead() override { stream_->abortRead(); }
  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    stream_->getsockopt(level, option, value, length);
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    stream_->setsockopt(level, option, value, length);
  }
  void getsockname(sockaddr* address, kj::uint* length) override {
    stream_->getsockname(address, length);
  }
  void getpeername(sockaddr* address, kj::uint* length) override {
    stream_->getpeername(address, length);
  }
  kj::Maybe<int> getFd() const override { return nullptr; }

 protected:
  kj::AsyncIoStream& under() { return *stream_; }

 private:
  kj::Own<kj::AsyncIoStream> stream_;
};

// The socket beneath KJ's stream, which knows when the system has taken all that KJ wrote.
class TlsSocket final : public OverStream {
 public:
  explicit TlsSocket(kj::Own<kj::AsyncIoStream> socket) : OverStream(kj::mv(socket)) {}

  kj::Promise<void> write(const void* buffer, size_t size) override;
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override;

  // Resolves once KJ has nothing to write. KJ begins its next write within the end of the last.
  kj::Promise<void> flushed();

 private:
  kj::Promise<void> counted(kj::Promise<void> written);

  size_t writes_ = 0;                                         // Writes under way.
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting_;  // Until there are none.
};

// `encrypted`: what KJ has made of the socket. `own`: whose certificate this process has, for
// messages: "host node7 (number 12)".
kj::Own<kj::AsyncIoStream> tls_stream(kj::Own<kj::AsyncIoStream> encrypted,
                                      kj::Own<TlsSocket> socket, std::string own);

// `first`, which was read from the stream already, and what the stream has behind it.
kj::Own<kj::AsyncIoStream> behind_first_byte(kj::byte first, kj::Own<kj::AsyncIoStream> stream);

// The error that a peer's alert stands for; none if the exception is no alert.
std::optional<Error> error_of_alert(const kj::Exception& exception, const std::string& own);

}  // namespace gangway::internal
