#include "runtime/tls/tls_stream.h"

#include <gtest/gtest.h>

#include "runtime/fibers/await.h"
#include "runtime/net/transport.h"
#include "runtime/tls/tls.h"
#include "tests/support/error_of.h"
#include "tests/support/net/issued_folders.h"

namespace gangway::tls_stream_test {
namespace {

// Both ends of a connection under TLS.
class TlsStreamTest : public testing::Test {
 protected:
  TlsStreamTest() {
    folders_.issue("host", {.kind = CertifiedKind::kHost, .name = "node7"});
    network_ = std::make_unique<SocketNetwork>(*reactor_, folders_.in("host"));
    reactor_->run([&] {
      Promise<void> came;
      listener_ = network_->listen("127.0.0.1:0", [&](Incoming in) {
        there_ = kj::mv(in.stream);
        came.set();
      });
      here_ = network_->connect(listener_->address());
      came.future().await();
    });
  }
  ~TlsStreamTest() noexcept override {
    reactor_->run([&] {
      here_ = nullptr;
      there_ = nullptr;
      listener_.reset();
    });
  }

  const IssuedFolders folders_;
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::unique_ptr<SocketNetwork> network_;
  std::unique_ptr<Listener> listener_;
  Stream here_, there_;
};

TEST_F(TlsStreamTest, AStreamThatIsDestroyedAfterAWriteHasSentAllOfIt) {
  reactor_->run([&] {
    std::vector<kj::byte> sent(size_t{5} << 20), got(sent.size() + 1);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<kj::byte>(i * 7);
    Fiber writer = reactor_->spawn("write", [&] {
      await(here_->write(sent.data(), sent.size()));
      here_ = nullptr;
    });
    EXPECT_EQ(await(there_->tryRead(got.data(), got.size(), got.size())), sent.size());
    got.pop_back();
    EXPECT_TRUE(got == sent);
    writer.join();
  });
}

TEST_F(TlsStreamTest, AReadOfNoBytesEndsAtOnceAndHarmsNothing) {
  reactor_->run([&] {
    kj::byte byte = 0;
    EXPECT_EQ(await(there_->tryRead(&byte, 0, 0)), 0u);
    await(here_->write("x", 1));
    EXPECT_EQ(await(there_->tryRead(&byte, 1, 1)), 1u);
    EXPECT_EQ(byte, 'x');
  });
}

// Damages the end of all that is read while `is_on`.
class Damaging final : public internal::OverStream {
 public:
  Damaging(Stream stream, const bool& is_on)
      : internal::OverStream(kj::mv(stream)), is_on_(is_on) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    return under().tryRead(buffer, min_bytes, max_bytes).then([this, buffer](size_t bytes) {
      if (is_on_ && bytes > 0) static_cast<kj::byte*>(buffer)[bytes - 1] ^= 1;
      return bytes;
    });
  }

 private:
  const bool& is_on_;
};

TEST_F(TlsStreamTest, ADamagedRecordIsALostConnection) {
  reactor_->run([&] {
    Tls tls(folders_.in("host"));
    SocketNetwork plain(*reactor_);
    const int64_t deadline_ns = reactor_->clock().now_ns() + 5'000'000'000;
    bool is_damaged = false;
    Stream there;
    Promise<void> came;
    const auto listener = plain.listen("127.0.0.1:0", [&](Incoming in) {
      there = tls.accept(*reactor_, kj::heap<Damaging>(kj::mv(in.stream), is_damaged),
                         Tls::Clients::kCertified, deadline_ns)
                  .stream;
      came.set();
    });
    Stream here =
        tls.dial(*reactor_, plain.connect(listener->address()), "there", deadline_ns).stream;
    came.future().await();
    is_damaged = true;
    await(kj::evalNow([&] { return here->write("x", 1); }));
    kj::byte byte = 0;
    EXPECT_EQ(error_of([&] { await(there->tryRead(&byte, 1, 1)); }).kind(),
              ErrorKind::kUnavailable);
  });
}

TEST_F(TlsStreamTest, EndingTwiceIsEndingOnceAndNoDescriptorIsShown) {
  reactor_->run([&] {
    EXPECT_TRUE(here_->getFd() == nullptr);
    here_->shutdownWrite();
    here_->shutdownWrite();
    kj::byte byte = 0;
    EXPECT_EQ(await(there_->tryRead(&byte, 1, 1)), 0u);
  });
}

}  // namespace
}  // namespace gangway::tls_stream_test
