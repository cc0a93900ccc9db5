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

class TlsStream final : public OverStream {
 public:
  TlsStream(kj::Own<kj::AsyncIoStream> encrypted, TlsSocket& socket, std::string own)
      : OverStream(kj::mv(encrypted)), socket_(socket), own_(std::move(own)) {}
  // Tells the peer that nothing was cut off. Browsers may take the end for an attack otherwise.
  ~TlsStream() noexcept(false) {
    if (is_broken_ || is_shut_ || writes_ > 0) return;
    static_cast<void>(result_of([this] { under().shutdownWrite(); }));
  }

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    if (max_bytes == 0) return size_t{0};
    return kj::evalNow([&] { return under().tryRead(buffer, min_bytes, max_bytes); })
        .catch_([this](kj::Exception&& why) -> kj::Promise<size_t> { return broken(kj::mv(why)); });
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    return counted(kj::evalNow([&] { return under().write(buffer, size); }));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return counted(kj::evalNow([&] { return under().write(pieces); }));
  }

  void shutdownWrite() override {
    if (std::exchange(is_shut_, true)) return;
    if (is_broken_ || writes_ > 0) return socket_.shutdownWrite();
    under().shutdownWrite();
  }
  void abortRead() override { socket_.abortRead(); }

 private:
  kj::Promise<void> counted(kj::Promise<void> written) {
    ++writes_;
    return written.then([this] { return socket_.flushed(); })
        .catch_([this](kj::Exception&& why) -> kj::Promise<void> { return broken(kj::mv(why)); })
        .attach(kj::defer([this] { --writes_; }));
  }

  kj::Exception broken(kj::Exception why) {
    is_broken_ = true;
    if (const std::optional<Error> refused = error_of_alert(why, own_)) return to_kj(*refused);
    // To OpenSSL a damaged record is a failure. To frames it is a connection to open again.
    if (why.getType() == kj::Exception::Type::FAILED) {
      return to_kj(Error(ErrorKind::kUnavailable, cat("tls: ", why.getDescription().cStr())));
    }
    return why;
  }

  TlsSocket& socket_;
  const std::string own_;
  size_t writes_ = 0;  // Writes under way.
  bool is_broken_ = false, is_shut_ = false;
};

class BehindFirstByte final : public OverStream {
 public:
  BehindFirstByte(kj::byte first, kj::Own<kj::AsyncIoStream> stream)
      : OverStream(kj::mv(stream)), first_(first) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    if (max_bytes == 0 || std::exchange(is_read_, true))
      return under().tryRead(buffer, min_bytes, max_bytes);
    auto* const to = static_cast<kj::byte*>(buffer);
    *to = first_;
    if (min_bytes <= 1) return size_t{1};
    auto rest = under().tryRead(to + 1, min_bytes - 1, max_bytes - 1);
    return rest.then([](size_t more) { return more + 1; });
  }

 private:
  const kj::byte first_;
  bool is_read_ = false;
};

}  // namespace

kj::Promise<void> TlsSocket::write(const void* buffer, size_t size) {
  return counted(kj::evalNow([&] { return under().write(buffer, size); }));
}

kj::Promise<void> TlsSocket::write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
  return counted(kj::evalNow([&] { return under().write(pieces); }));
}

kj::Promise<void> TlsSocket::counted(kj::Promise<void> written) {
  ++writes_;
  return written.attach(kj::defer([this] {
    if (--writes_ > 0) return;
    for (auto& one : std::exchange(waiting_, {})) one->fulfill();
  }));
}

kj::Promise<void> TlsSocket::flushed() {
  return kj::evalLast([this]() -> kj::Promise<void> {
    if (writes_ == 0) return kj::READY_NOW;
    auto ended = kj::newPromiseAndFulfiller<void>();
    waiting_.push_back(kj::mv(ended.fulfiller));
    return ended.promise.then([this] { return flushed(); });
  });
}

kj::Own<kj::AsyncIoStream> tls_stream(kj::Own<kj::AsyncIoStream> encrypted,
                                      kj::Own<TlsSocket> socket, std::string own) {
  TlsSocket& under = *socket;
  auto stream = kj::heap<TlsStream>(kj::mv(encrypted), under, std::move(own));
  return stream.attach(kj::mv(socket));
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
