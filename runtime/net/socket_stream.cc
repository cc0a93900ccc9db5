#include "runtime/net/socket_stream.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gangway::internal {
namespace {

using kj::byte;
using Piece = kj::ArrayPtr<const byte>;
using Pieces = kj::ArrayPtr<const Piece>;

// Pieces of one system call: a full batch of frames with their prefixes.
constexpr size_t kPiecesMax = 128;

kj::AutoCloseFd duplicate(int fd) {
  int copy = -1;
  KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) {}
  return kj::AutoCloseFd(copy);
}

class SocketStream final : public kj::AsyncIoStream {
 public:
  SocketStream(kj::UnixEventPort& port, kj::AutoCloseFd fd)
      : port_(port),
        fd_(kj::mv(fd)),
        input_(port, fd_, kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    return read_on({static_cast<byte*>(buffer), min_bytes, max_bytes, 0});
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    return write_on({static_cast<const byte*>(buffer), size}, nullptr);
  }
  kj::Promise<void> write(Pieces pieces) override { return write_on(nullptr, pieces); }

  kj::Promise<void> whenWriteDisconnected() override { return input_.whenWriteDisconnected(); }
  void shutdownWrite() override {
    KJ_SYSCALL(shutdown(fd_, SHUT_WR)) {}
  }
  void abortRead() override {
    KJ_SYSCALL(shutdown(fd_, SHUT_RD)) {}
  }

  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    socklen_t size = *length;
    KJ_SYSCALL(::getsockopt(fd_, level, option, value, &size));
    *length = size;
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    KJ_SYSCALL(::setsockopt(fd_, level, option, value, length)) {}
  }
  void getsockname(sockaddr* address, kj::uint* length) override {
    socklen_t size = *length;
    KJ_SYSCALL(::getsockname(fd_, address, &size));
    *length = size;
  }
  void getpeername(sockaddr* address, kj::uint* length) override {
    socklen_t size = *length;
    KJ_SYSCALL(::getpeername(fd_, address, &size));
    *length = size;
  }
  kj::Maybe<int> getFd() const override { return fd_.get(); }

 private:
  struct Reading {
    byte* to;
    size_t min_bytes, max_bytes;  // Bytes still to be read.
    size_t done;
  };

  kj::Promise<size_t> read_on(Reading reading) {
    while (becomes_readable_ == nullptr) {
      ssize_t n = -1;
      KJ_NONBLOCKING_SYSCALL(n = ::read(fd_, reading.to, reading.max_bytes)) {}
      if (n == 0) return reading.done;
      if (n < 0) {
        becomes_readable_ = input_.whenBecomesReadable();
        break;
      }
      const auto got = static_cast<size_t>(n);
      // The socket is empty now. The arrival of more bytes, or the peer's leaving, will be an
      // event. The last event may already have reported that the peer has left.
      const bool is_empty = got < reading.max_bytes && !input_.atEndHint().orDefault(true);
      if (is_empty) becomes_readable_ = input_.whenBecomesReadable();
      reading.done += got;
      if (got >= reading.min_bytes) return reading.done;
      reading.to += got;
      reading.min_bytes -= got;
      reading.max_bytes -= got;
    }
    auto readable = kj::mv(KJ_ASSERT_NONNULL(becomes_readable_));
    becomes_readable_ = nullptr;
    return readable.then([this, reading] { return read_on(reading); });
  }

  // Writes `first`, then the others.
  kj::Promise<void> write_on(Piece first, Pieces rest) {
    while (true) {
      std::array<iovec, kPiecesMax> parts;
      size_t count = 0, bytes = 0;
      const auto add = [&](Piece piece) {
        parts[count++] = {const_cast<byte*>(piece.begin()), piece.size()};
        bytes += piece.size();
      };
      add(first);
      for (size_t i = 0; i < std::min(rest.size(), kPiecesMax - 1); ++i) add(rest[i]);
      ssize_t n = -1;
      KJ_NONBLOCKING_SYSCALL(n = ::writev(fd_, parts.data(), static_cast<int>(count))) {}
      auto written = static_cast<size_t>(std::max<ssize_t>(n, 0));
      const bool is_full = written < bytes;
      while (written >= first.size()) {
        if (rest.size() == 0) return kj::READY_NOW;
        written -= first.size();
        first = std::exchange(rest, rest.slice(1, rest.size()))[0];
      }
      first = first.slice(written, first.size());
      if (is_full) return room().then([this, first, rest] { return write_on(first, rest); });
    }
  }

  // Watches a duplicate of the descriptor while a writer waits, since a descriptor can be watched
  // only once.
  kj::Promise<void> room() {
    struct Watch {
      Watch(kj::UnixEventPort& port, int socket)
          : fd(duplicate(socket)), output(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_WRITE) {}
      kj::AutoCloseFd fd;
      kj::UnixEventPort::FdObserver output;
    };
    auto watch = kj::heap<Watch>(port_, fd_.get());
    auto writable = watch->output.whenBecomesWritable();
    return writable.attach(kj::mv(watch));
  }

  kj::UnixEventPort& port_;
  kj::AutoCloseFd fd_;
  kj::UnixEventPort::FdObserver input_;
  kj::Maybe<kj::Promise<void>> becomes_readable_;  // Set: the socket is empty until then.
};

}  // namespace

Stream socket_stream(kj::UnixEventPort& port, kj::AutoCloseFd socket) {
  return kj::heap<SocketStream>(port, kj::mv(socket));
}

Stream socket_stream(kj::UnixEventPort& port, Stream connected) {
  kj::AutoCloseFd socket = duplicate(KJ_ASSERT_NONNULL(connected->getFd()));
  connected = nullptr;
  return socket_stream(port, kj::mv(socket));
}

}  // namespace gangway::internal
