#include "runtime/tls/tls_stream.h"

#include <array>
#include <string_view>
#include <utility>

#include "runtime/fibers/kj_error.h"

namespace gangway::internal {
namespace {

struct AlertText {
  std::string_view alert;  // In the words of OpenSSL.
  const char* meaning;
};

constexpr AlertText kAlerts[] = {
    {"alert certificate expired", "it has expired"},
    {"alert certificate revoked", "it was revoked"},
    {"alert unknown ca", "another authority issued it"},
    {"alert certificate required", "none was shown"},
    {"alert bad certificate", "it is not valid"},
    {"alert unsupported certificate", "it is for another use"},
    {"alert decrypt error", "its signature is wrong"},
    {"alert handshake failure", "it is of another kind"},
};

class TlsStream final : public kj::AsyncIoStream {
 public:
  TlsStream(kj::Own<kj::AsyncIoStream> encrypted, kj::Own<kj::AsyncIoStream> socket,
            std::string own)
      : socket_(kj::mv(socket)), encrypted_(kj::mv(encrypted)), own_(std::move(own)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    return kj::evalNow([&] { return encrypted_->tryRead(buffer, min_bytes, max_bytes); })
        .catch_([this](kj::Exception&& why) -> kj::Promise<size_t> { return broken(kj::mv(why)); });
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    return counted(kj::evalNow([&] { return encrypted_->write(buffer, size); }));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return counted(kj::evalNow([&] { return encrypted_->write(pieces); }));
  }

  kj::Promise<void> whenWriteDisconnected() override { return encrypted_->whenWriteDisconnected(); }
  void shutdownWrite() override {
    if (std::exchange(is_shut_, true)) return;
    if (is_broken_ || writes_ > 0) return socket_->shutdownWrite();
    encrypted_->shutdownWrite();
  }
  void abortRead() override { socket_->abortRead(); }

  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    socket_->getsockopt(level, option, value, length);
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    socket_->setsockopt(level, option, value, length);
  }
  void getsockname(sockaddr* address, kj::uint* length) override {
    socket_->getsockname(address, length);
  }
  void getpeername(sockaddr* address, kj::uint* length) override {
    socket_->getpeername(address, length);
  }
  kj::Maybe<int> getFd() const override { return nullptr; }

 private:
  kj::Promise<void> counted(kj::Promise<void> written) {
    ++writes_;
    return written
        .catch_([this](kj::Exception&& why) -> kj::Promise<void> { return broken(kj::mv(why)); })
        .attach(kj::defer([this] { --writes_; }));
  }

  kj::Exception broken(kj::Exception why) {
    is_broken_ = true;
    if (const std::optional<Error> refused = error_of_alert(why, own_)) return to_kj(*refused);
    return why;
  }

  kj::Own<kj::AsyncIoStream> socket_;  // Destroyed after the next member, which uses it.
  kj::Own<kj::AsyncIoStream> encrypted_;
  const std::string own_;
  size_t writes_ = 0;  // Writes under way.
  bool is_broken_ = false, is_shut_ = false;
};

class BehindFirstByte final : public kj::AsyncIoStream {
 public:
  BehindFirstByte(kj::byte first, kj::Own<kj::AsyncIoStream> stream)
      : first_(first), stream_(kj::mv(stream)) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    if (max_bytes == 0 || std::exchange(is_read_, true))
      return stream_->tryRead(buffer, min_bytes, max_bytes);
    auto* const to = static_cast<kj::byte*>(buffer);
    *to = first_;
    if (min_bytes <= 1) return size_t{1};
    return stream_->tryRead(to + 1, min_bytes - 1, max_bytes - 1).then([](size_t more) {
      return more + 1;
    });
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

 private:
  const kj::byte first_;
  bool is_read_ = false;
  kj::Own<kj::AsyncIoStream> stream_;
};

}  // namespace

kj::Own<kj::AsyncIoStream> tls_stream(kj::Own<kj::AsyncIoStream> encrypted,
                                      kj::Own<kj::AsyncIoStream> socket, std::string own) {
  return kj::heap<TlsStream>(kj::mv(encrypted), kj::mv(socket), std::move(own));
}

kj::Own<kj::AsyncIoStream> behind_first_byte(kj::byte first, kj::Own<kj::AsyncIoStream> stream) {
  return kj::heap<BehindFirstByte>(first, kj::mv(stream));
}

std::optional<Error> error_of_alert(const kj::Exception& exception, const std::string& own) {
  const std::string_view text(exception.getDescription().begin(),
                              exception.getDescription().size());
  for (const AlertText& known : kAlerts) {
    if (text.find(known.alert) == text.npos) continue;
    return Error(ErrorKind::kInvalid,
                 cat("tls: the peer does not take the certificate of ", own, ": ", known.meaning),
                 {}, "ask who runs the cluster for a new one (gangway cert)");
  }
  return std::nullopt;
}

}  // namespace gangway::internal
