#include "runtime/net/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"

namespace gangway::frames_test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Frame note(uint64_t number, size_t text_bytes = 0) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<test::Note>();
  root.setNumber(number);
  root.initText(static_cast<uint32_t>(text_bytes));
  return make_frame(message);
}

// Why a stream ended; empty if it has not ended, or was closed.
std::string reason(const FrameStream& stream) {
  const Future<void> closed = stream.closed();
  if (!closed.ready() || closed.result().ok()) return "";
  const Error& error = closed.result().error();
  return cat(to_string(error.kind()), ": ", error.message());
}

// A client that dials and a server that is dialled, on virtual time.
class FrameStreamTest : public testing::Test {
 protected:
  FrameStreamTest() {
    server_stream_ = std::make_unique<FrameStream>(*reactor_, FrameOptions{.name = "client"});
    server_stream_->start([this](capnp::MessageReader& message) {
      at_server_.push_back(message.getRoot<test::Note>().getNumber());
      if (answer_) server_stream_->send(note(at_server_.back()));
    });
    server_ =
        std::make_unique<Server>(*reactor_, network_.endpoint("server"), "sim:server",
                                 ServerOptions{.frames_of = [this](uint64_t, const std::string&) {
                                   return (++dials_, server_stream_.get());
                                 }});
  }
  ~FrameStreamTest() noexcept override {}

  void dial() {
    client_ = connect_frames(*reactor_, network_.endpoint("client"), "sim:server", 42,
                             {.name = "server"});
    client_->start([this](capnp::MessageReader& message) {
      at_client_.push_back(message.getRoot<test::Note>().getNumber());
    });
  }
  void pass(Duration time) {
    reactor_->run([&] { reactor_->clock().sleep_for(time); });
  }
  void pass_until(const std::function<bool()>& done) {
    while (!done()) pass(1ms);
  }
  // Numbers from 1.
  static std::vector<uint64_t> first(size_t count) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = 3});
  SimNetwork network_{*reactor_, {.delay = 50us}};
  std::unique_ptr<FrameStream> server_stream_, client_;
  std::unique_ptr<Server> server_;
  std::vector<uint64_t> at_server_, at_client_;
  bool answer_ = false;
  int dials_ = 0;  // Twice for each: before and after the answer.
};

TEST_F(FrameStreamTest, FramesThatAreSentBeforeThePeerConnectsWaitForIt) {
  for (uint64_t i = 1; i <= 3; ++i) server_stream_->send(note(i));
  pass(1s);
  dial();
  pass(1ms);
  EXPECT_EQ(at_client_, first(3));
}

TEST_F(FrameStreamTest, AFrameIsKeptUntilItIsAcknowledged) {
  dial();
  client_->send(note(1));
  pass(1ms);
  EXPECT_EQ(at_server_, first(1));
  EXPECT_GT(client_->kept_bytes(), 0u);
  pass(300ms);
  EXPECT_EQ(client_->kept_bytes(), 0u);
}

TEST_F(FrameStreamTest, ALostConnectionIsOpenedAgainAndEveryFrameArrivesOnce) {
  dial();
  for (uint64_t i = 1; i <= 100; ++i) {
    client_->send(note(i));
    server_stream_->send(note(i));
    if (i % 10 == 0) network_.break_connections("client");  // With frames under way.
    pass(20us);
  }
  pass(1s);
  EXPECT_EQ(at_server_, first(100));
  EXPECT_EQ(at_client_, first(100));
  EXPECT_GE(client_->counts().reconnects.value(), 5u);
  EXPECT_EQ(client_->counts().reconnects.value(), server_stream_->counts().reconnects.value());
  EXPECT_GT(client_->counts().frames_resent.value(), 0u);
  EXPECT_EQ(client_->counts().frames_sent.value(), 100u);
  EXPECT_EQ(client_->kept_bytes() + server_stream_->kept_bytes(), 0u);
}

TEST_F(FrameStreamTest, AConnectionThatDoesNotComeBackInTimeEndsTheStreamAtBothEnds) {
  dial();
  pass(1s);
  network_.partition("client", "server");
  network_.break_connections("client");
  pass(9s);
  EXPECT_EQ(reason(*client_) + reason(*server_stream_), "");
  pass(2s);
  EXPECT_THAT(reason(*client_), HasSubstr("unavailable: server: the connection was lost ("));
  EXPECT_THAT(reason(*client_), HasSubstr("did not come back within 10.0 s"));
  EXPECT_THAT(reason(*server_stream_), HasSubstr("unavailable: client: the connection was lost ("));
  network_.heal("client", "server");
}

TEST_F(FrameStreamTest, APartitionThatHealsInTimeIsSurvived) {
  dial();
  pass(1s);
  network_.partition("client", "server");
  network_.break_connections("client");
  for (uint64_t i = 1; i <= 10; ++i) client_->send(note(i));
  pass(9s);
  network_.heal("client", "server");
  pass(1s);
  EXPECT_EQ(at_server_, first(10));
}

TEST_F(FrameStreamTest, APeerThatNeverConnectsIsGivenUp) {
  pass(11s);
  EXPECT_EQ(reason(*server_stream_), "unavailable: client: did not connect within 10.0 s");
}

TEST_F(FrameStreamTest, AStreamThatIsClosedIsNotDialledAgain) {
  dial();
  pass(1ms);
  EXPECT_EQ(dials_, 2);
  server_stream_->close();
  pass(1s);
  EXPECT_EQ(reason(*client_), "unavailable: server: the peer ended the stream");
  EXPECT_EQ(dials_, 2);
}

TEST_F(FrameStreamTest, AClientThatClosesIsNotWaitedFor) {
  dial();
  pass(1ms);
  client_.reset();
  pass(1ms);
  EXPECT_EQ(reason(*server_stream_), "unavailable: client: the peer ended the stream");
}

TEST_F(FrameStreamTest, AStreamThatIsDestroyedWhileItDialsAgainEndsAtOnce) {
  dial();
  pass(1ms);
  network_.partition("client", "server");
  network_.break_connections("client");
  pass(1s);
  const int64_t before_ns = reactor_->clock().now_ns();
  client_.reset();
  EXPECT_EQ(reactor_->clock().now_ns(), before_ns);
  network_.heal("client", "server");
}

TEST_F(FrameStreamTest, APeerWhoseStreamHasEndedMeanwhileIsRefused) {
  dial();
  pass(1ms);
  network_.partition("client", "server");
  network_.break_connections("client");
  server_stream_->close();  // No goodbye can reach the peer.
  network_.heal("client", "server");
  pass(1s);
  EXPECT_THAT(reason(*client_), HasSubstr("unavailable: server: the connection was lost ("));
  EXPECT_THAT(reason(*client_), HasSubstr("sim:server has no frame stream for this peer"));
}

TEST_F(FrameStreamTest, APeerWithoutAStreamIsRefused) {
  server_stream_.reset();
  try {
    dial();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("sim:server has no frame stream for this peer"));
  }
}

TEST_F(FrameStreamTest, FramesOfAnotherStreamEndThisOne) {
  dial();
  pass(1s);
  network_.partition("client", "server");
  network_.break_connections("client");
  // Has the same key and another epoch, like a process that got the key from an earlier server.
  const auto other =
      connect_frames(*reactor_, network_.endpoint("other"), "sim:server", 42, {.name = "server"});
  pass(1ms);
  EXPECT_THAT(reason(*server_stream_), HasSubstr("invalid: frame from client: it belongs to "
                                                 "another stream: expected epoch "));
  network_.heal("client", "server");
}

TEST_F(FrameStreamTest, WhileFramesGoBothWaysAcknowledgementsCostNoWrites) {
  answer_ = true;
  dial();
  for (uint64_t i = 1; i <= 1000; ++i) {
    client_->send(note(i));
    pass_until([&] { return at_client_.size() == i; });
  }
  // One write for the first report, and at most one for each tick: there are ten ticks a second.
  const auto ticks = static_cast<uint64_t>(reactor_->clock().now_ns() / 100'000'000);
  EXPECT_LE(client_->counts().writes.value(), 1000 + 1 + ticks / 10);
  EXPECT_LE(server_stream_->counts().writes.value(), 1000 + 1 + ticks / 10);
}

TEST_F(FrameStreamTest, FramesThatGoOneWayAreAcknowledgedByNumberByBytesAndByTime) {
  dial();
  pass(1ms);
  const auto acknowledgements = [&, before = server_stream_->counts().writes.value()] {
    return server_stream_->counts().writes.value() - before;
  };
  for (uint64_t i = 1; i <= 640; ++i) client_->send(note(i));
  pass(10ms);
  EXPECT_EQ(acknowledgements(), 10u);
  EXPECT_EQ(client_->kept_bytes(), 0u);
  for (uint64_t i = 1; i <= 40; ++i) {
    client_->send(note(i, 1 << 20));
    pass(1ms);
    EXPECT_LE(client_->kept_bytes(), size_t{3} << 20);
  }
  EXPECT_EQ(acknowledgements(), 50u);
  client_->send(note(1));
  pass(300ms);
  EXPECT_EQ(acknowledgements(), 51u);
  EXPECT_EQ(client_->kept_bytes(), 0u);
  pass(1h);
  EXPECT_EQ(acknowledgements(), 51u) << "an acknowledgement is not acknowledged";
}

// Applies the fault once, to the number-th frame or prefix that an endpoint sends from now on.
void arrange(SimNetwork& network, const std::string& sender, int number, FrameFault fault) {
  network.set_frame_fault([=](const std::string& from, const std::string&) mutable {
    return from == sender && --number == 0 ? fault : FrameFault{};
  });
}

TEST_F(FrameStreamTest, ALostFrameBreaksTheConnectionAndComesOverTheNext) {
  dial();
  pass(1s);
  arrange(network_, "client", 3, {FrameFault::Kind::kDrop});
  for (uint64_t i = 1; i <= 6; ++i) client_->send(note(i));
  pass(50ms);
  EXPECT_EQ(at_server_, first(6));
  EXPECT_EQ(client_->counts().reconnects.value(), 1u);
}

TEST_F(FrameStreamTest, ALastFrameThatIsLostIsMissedWithinASecond) {
  dial();
  pass(1s);
  arrange(network_, "client", 3, {FrameFault::Kind::kDrop});
  for (uint64_t i = 1; i <= 3; ++i) client_->send(note(i));
  pass(50ms);
  EXPECT_EQ(at_server_, first(2));
  pass(950ms);
  EXPECT_EQ(at_server_, first(3));
}

TEST_F(FrameStreamTest, ALostAcknowledgementIsAskedFor) {
  dial();
  pass(1s);
  arrange(network_, "server", 1, {FrameFault::Kind::kDrop});
  client_->send(note(1));
  pass(300ms);
  EXPECT_GT(client_->kept_bytes(), 0u);
  pass(500ms);
  EXPECT_EQ(client_->kept_bytes(), 0u);
  EXPECT_EQ(client_->counts().reconnects.value(), 0u);
}

// The pause before a question doubles while the peer is silent.
TEST_F(FrameStreamTest, APeerThatWasSilentForLongIsAskedSoonAgainOverItsNextConnection) {
  dial();
  pass(1s);
  network_.set_frame_fault([](const std::string& from, const std::string&) {
    return FrameFault{from == "server" ? FrameFault::Kind::kDrop : FrameFault::Kind::kNothing};
  });
  client_->send(note(1));
  pass(60s);
  EXPECT_GT(client_->kept_bytes(), 0u);
  network_.set_frame_fault(nullptr);
  network_.break_connections("client");
  pass(1s);
  EXPECT_EQ(client_->kept_bytes(), 0u);
  arrange(network_, "client", 1, {FrameFault::Kind::kDrop});
  client_->send(note(2));
  pass(1s);
  EXPECT_EQ(at_server_, first(2));
}

TEST_F(FrameStreamTest, TheFirstFrameOfAConnectionMayBeLostToo) {
  dial();
  pass(1s);
  for (const char* sender : {"client", "server"}) {
    network_.break_connections("client");
    arrange(network_, sender, 1, {FrameFault::Kind::kDrop});
    client_->send(note(1));
    server_stream_->send(note(1));
    pass(2s);
  }
  EXPECT_EQ(at_server_.size(), 2u);
  EXPECT_EQ(at_client_.size(), 2u);
}

TEST_F(FrameStreamTest, ARepeatedFrameIsDropped) {
  dial();
  pass(1s);
  arrange(network_, "client", 2, {FrameFault::Kind::kDuplicate});
  for (uint64_t i = 1; i <= 3; ++i) client_->send(note(i));
  pass(1s);
  EXPECT_EQ(at_server_, first(3));
  EXPECT_EQ(client_->counts().reconnects.value(), 0u);
}

TEST_F(FrameStreamTest, AFrameThatOvertakesAnotherIsNotTakenBeforeIt) {
  dial();
  pass(1s);
  arrange(network_, "client", 2, {FrameFault::Kind::kSwap});
  for (uint64_t i = 1; i <= 6; ++i) client_->send(note(i));
  pass(1s);
  EXPECT_EQ(at_server_, first(6));
}

TEST_F(FrameStreamTest, ConnectionsThatBreakAtEachFrameEndTheStream) {
  dial();
  pass(1s);
  network_.set_frame_fault([](const std::string& from, const std::string&) {
    return FrameFault{from == "client" ? FrameFault::Kind::kBreak : FrameFault::Kind::kNothing};
  });
  client_->send(note(1));
  pass(15s);
  EXPECT_THAT(reason(*client_), HasSubstr("did not come back within 10.0 s"));
  EXPECT_LT(client_->counts().reconnects.value(), 100u) << "pauses grow";
}

}  // namespace
}  // namespace gangway::frames_test
