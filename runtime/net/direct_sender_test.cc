#include "runtime/net/direct_sender.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include <array>
#include <numeric>
#include <vector>

#include "runtime/fibers/port.h"
#include "runtime/net/frames.h"
#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/sim_network.h"
#include "runtime/net/socket_stream.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;

Frame note(uint64_t number, size_t text_bytes = 0) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<test::Note>();
  root.setNumber(number);
  root.initText(static_cast<uint32_t>(text_bytes));
  return make_frame(message);
}

// A stream that lends its connection, and its peer, joined by sockets.
class DirectSenderTest : public testing::Test {
 protected:
  explicit DirectSenderTest(int send_buffer = 1 << 20)
      : send_buffer_(send_buffer), peer_(*reactor_, {.name = "peer"}) {
    peer_.start([this](capnp::MessageReader& message) {
      arrived_.push_back(message.getRoot<test::Note>().getNumber());
    });
    stream_ = std::make_unique<FrameStream>(
        *reactor_, connection(), [this](Duration) { return connection(); },
        FrameOptions{.name = "dialler"});
    stream_->start([](capnp::MessageReader&) {});
    stream_->lend_to(direct_);
    pass_until([this] { return stream_->lends(); });
  }
  ~DirectSenderTest() noexcept override {}

  // The peer gets the other end.
  Stream connection() {
    std::array<int, 2> ends{};
    KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()));
    KJ_SYSCALL(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &send_buffer_, sizeof send_buffer_));
    kj::UnixEventPort& port = *reactor_->port().unix_port();
    at_peer_ = ends[1];
    peer_.attach(internal::socket_stream(port, kj::AutoCloseFd(ends[1])));
    return internal::socket_stream(port, kj::AutoCloseFd(ends[0]));
  }
  bool sends(uint64_t number, size_t text_bytes = 0) {
    const Frame frame = note(number, text_bytes);
    return direct_->send({&frame, 1});
  }
  void pass_until(const std::function<bool()>& done) { reactor_->run_until(done); }
  // Numbers from 1.
  static std::vector<uint64_t> first(size_t count) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  const int send_buffer_;
  int at_peer_ = -1;
  FrameStream peer_;
  std::shared_ptr<DirectSender> direct_ = std::make_shared<DirectSender>(reactor_->mailbox());
  std::unique_ptr<FrameStream> stream_;
  std::vector<uint64_t> arrived_;
};

TEST_F(DirectSenderTest, FramesOfAnotherThreadArriveInOrderWithThoseOfTheReactor) {
  uint64_t number = 0;
  for (int round = 0; round < 5; ++round) {
    Thread("sender", [&] {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(sends(++number));
    }).join();
    stream_->send(note(++number));
    EXPECT_FALSE(sends(number + 1)) << "the stream has something to write";
    pass_until([this] { return stream_->lends(); });
  }
  pass_until([&] { return arrived_.size() == number; });
  EXPECT_EQ(arrived_, first(number));
}

TEST_F(DirectSenderTest, FramesThatAreSentTogetherAreOneWriteAndCount) {
  const uint64_t frames = stream_->counts().frames_sent.value();
  const uint64_t writes = stream_->counts().writes.value();
  const uint64_t bytes = stream_->counts().bytes_sent.value();
  const std::array<Frame, 2> both{note(1), note(2)};
  EXPECT_TRUE(direct_->send(both));
  pass_until([&] { return arrived_.size() == 2; });
  stream_->close();
  EXPECT_EQ(stream_->counts().frames_sent.value(), frames + 2);
  EXPECT_EQ(stream_->counts().writes.value(), writes + 1);
  EXPECT_EQ(stream_->counts().bytes_sent.value(), bytes + 2 * (32 + both[0]->asBytes().size()));
}

class SmallSocketTest : public DirectSenderTest {
 protected:
  SmallSocketTest() : DirectSenderTest(16 << 10) {}
};

TEST_F(SmallSocketTest, TheReactorWritesTheBytesThatTheSystemDidNotTake) {
  uint64_t number = 0;
  while (sends(number + 1, 5000)) ++number;  // Until a frame was not taken whole.
  EXPECT_GT(number, 0u);
  EXPECT_LT(number, DirectSender::kBytesMax / 5000);
  stream_->send(note(++number));
  pass_until([&] { return arrived_.size() == number; });
  EXPECT_EQ(arrived_, first(number));
}

TEST_F(SmallSocketTest, AFrameThatWasBegunIsWholeBeforeTheStreamSaysGoodbye) {
  uint64_t number = 0;
  while (sends(number + 1, 5000)) ++number;
  stream_->close();
  pass_until([this] { return peer_.has_ended(); });
  EXPECT_EQ(arrived_, first(number));
  EXPECT_EQ(peer_.closed().result().error().message(), "peer: the peer ended the stream");
}

TEST_F(SmallSocketTest, FlushWaitsForWhatTheSystemDidNotTake) {
  uint64_t number = 0;
  while (sends(number + 1, 5000)) ++number;
  reactor_->run([this] { stream_->flush(); });
  reactor_->run_ready();  // No wait is needed: the system has all of it.
  EXPECT_EQ(arrived_, first(number));
}

TEST_F(DirectSenderTest, FramesThatGoDownWithTheirConnectionAreSentAgain) {
  KJ_SYSCALL(shutdown(at_peer_, SHUT_RDWR));
  for (uint64_t number = 1; number <= 3; ++number) {
    if (!sends(number)) stream_->send(note(number));
  }
  pass_until([&] { return arrived_.size() == 3; });
  EXPECT_EQ(arrived_, first(3));
}

TEST_F(DirectSenderTest, FramesThatTheReactorHasNotHeardOfAreBounded) {
  uint64_t number = 0;
  while (sends(number + 1)) ++number;
  EXPECT_EQ(number, DirectSender::kFramesMax);
}

TEST_F(DirectSenderTest, AStreamThatHasEndedLendsNothing) {
  stream_->close();
  EXPECT_FALSE(sends(1));
  stream_.reset();
  EXPECT_FALSE(sends(1));
}

TEST(DirectSender, AStreamWithoutASocketLendsNothing) {
  const auto reactor = Reactor::make_simulated();
  SimNetwork network(*reactor);
  FrameStream peer(*reactor, {.name = "peer"});
  const auto listener = network.endpoint("peer").listen(
      "sim:peer", [&](Incoming in) { peer.attach(kj::mv(in.stream)); });
  const auto direct = std::make_shared<DirectSender>(reactor->mailbox());
  reactor->run([&] {
    const auto dial = [&](Duration) { return network.endpoint("here").connect("sim:peer"); };
    FrameStream stream(*reactor, dial(1s), dial, {.name = "peer"});
    stream.start([](capnp::MessageReader&) {});
    stream.lend_to(direct);
    reactor->clock().sleep_for(1s);
    EXPECT_FALSE(direct->is_lent());
  });
}

}  // namespace
}  // namespace gangway
