#include "runtime/net/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/fibers/await.h"
#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/support/error_of.h"

namespace gangway::server_test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class EchoServer final : public test::Echo::Server {
  kj::Promise<void> echo(EchoContext context) override {
    return in_fiber("echo", [context]() mutable {
      Reactor::current().clock().sleep_for(1ms);
      auto results = context.getResults();
      results.setNumber(context.getParams().getNumber());
      results.setData(context.getParams().getData());
    });
  }
  kj::Promise<void> fail(FailContext) override {
    return in_fiber("fail", [] {
      throw Error(ErrorKind::kOverloaded, "memory: full", {.host = "h3"}, "wait");
    });
  }
};

enum class Wire { kUnix, kTcp, kMemory, kSimulated };

std::string name_of(const testing::TestParamInfo<Wire>& param) {
  constexpr const char* kNames[] = {"Unix", "Tcp", "Memory", "Simulated"};
  return kNames[static_cast<int>(param.param)];
}

// One world of each kind: a reactor, a network for each side, an address to listen on.
class RpcTest : public testing::TestWithParam<Wire> {
 protected:
  RpcTest()
      : reactor_(GetParam() == Wire::kSimulated ? Reactor::make_simulated() : Reactor::make_real()),
        sim_(*reactor_, {.delay = GetParam() == Wire::kSimulated ? 50us : 0us}),
        sockets_(*reactor_) {}

  bool in_memory() const { return GetParam() == Wire::kMemory || GetParam() == Wire::kSimulated; }
  Network& server_side() {
    return in_memory() ? sim_.endpoint("server") : static_cast<Network&>(sockets_);
  }
  Network& client_side() {
    return in_memory() ? sim_.endpoint("client") : static_cast<Network&>(sockets_);
  }
  std::string listen_address() {
    if (in_memory()) return "sim:server";
    return GetParam() == Wire::kTcp ? "127.0.0.1:0" : "unix:" + (dir_.path() / "s").string();
  }
  bool try_to_connect(const std::string& address) {
    try {
      Connection::connect(*reactor_, client_side(), address);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      return false;
    }
  }
  ServerOptions echo_options() {
    return {.bootstrap = [](const Peer&) { return kj::heap<EchoServer>(); }};
  }
  // Keeps the numbers of the notes that arrive.
  std::unique_ptr<FrameStream> stream_to(std::vector<uint64_t>& numbers) {
    auto stream = std::make_unique<FrameStream>(*reactor_, FrameOptions{.name = "client"});
    stream->start([&numbers](capnp::MessageReader& message) {
      numbers.push_back(message.getRoot<test::Note>().getNumber());
    });
    return stream;
  }
  static Frame note(uint64_t number) {
    capnp::MallocMessageBuilder message;
    message.initRoot<test::Note>().setNumber(number);
    return make_frame(message);
  }

  TempDir dir_;
  std::unique_ptr<Reactor> reactor_;
  SimNetwork sim_;
  SocketNetwork sockets_;
};

INSTANTIATE_TEST_SUITE_P(Wires, RpcTest,
                         testing::Values(Wire::kUnix, Wire::kTcp, Wire::kMemory, Wire::kSimulated),
                         name_of);

TEST_P(RpcTest, AHundredFibersCallAtOnceAndEachGetsItsOwnAnswer) {
  Server server(*reactor_, server_side(), listen_address(), echo_options());
  Connection connection = Connection::connect(*reactor_, client_side(), server.address());
  auto echo = connection.bootstrap<test::Echo>();
  int right = 0;
  std::vector<Fiber> fibers;
  for (uint64_t i = 0; i < 100; ++i) {
    fibers.push_back(reactor_->spawn("caller", [&, i] {
      auto request = echo.echoRequest();
      request.setNumber(i);
      right += await(request.send()).getNumber() == i;
    }));
  }
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_EQ(right, 100);
}

TEST_P(RpcTest, CarriesMessagesLargerThanCapnProtosDefaultLimit) {
  Server server(*reactor_, server_side(), listen_address(), echo_options());
  Connection connection = Connection::connect(*reactor_, client_side(), server.address());
  auto request = connection.bootstrap<test::Echo>().echoRequest();
  request.initData(80 << 20)[12345] = 7;
  auto response = await(request.send());
  EXPECT_EQ(response.getData().size(), size_t{80} << 20);
  EXPECT_EQ(response.getData()[12345], 7);
}

TEST_P(RpcTest, AServersErrorArrivesAsTheSameError) {
  Server server(*reactor_, server_side(), listen_address(), echo_options());
  Connection connection = Connection::connect(*reactor_, client_side(), server.address());
  auto echo = connection.bootstrap<test::Echo>();
  const Error error = error_of([&] { await(echo.failRequest().send()); });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_STREQ(error.what(), "memory: full\n  in host h3\n  hint: wait");
}

TEST_P(RpcTest, TheServerKnowsTheUserAtTheOtherEndButOfTcpKnowsNobody) {
  std::vector<std::string> users;
  ServerOptions options;
  options.bootstrap = [&](const Peer& peer) {
    users.push_back(peer.user);
    return kj::heap<EchoServer>();
  };
  Server server(*reactor_, server_side(), listen_address(), options);
  const auto connect_once = [&] {
    Connection connection = Connection::connect(*reactor_, client_side(), server.address());
    await(connection.bootstrap<test::Echo>().echoRequest().send());
  };
  connect_once();
  sim_.set_user("client", "bob");
  connect_once();
  const std::string own = GetParam() == Wire::kTcp ? "" : own_user_name();
  EXPECT_EQ(users, (std::vector<std::string>{own, in_memory() ? "bob" : own}));
}

TEST_P(RpcTest, BothSidesLearnThatThePeerHasGone) {
  Future<void> client_gone;
  ServerOptions options;
  options.bootstrap = [&](const Peer& peer) {
    client_gone = peer.disconnected;
    return kj::heap<EchoServer>();
  };
  auto server = std::make_unique<Server>(*reactor_, server_side(), listen_address(), options);
  {
    Connection first = Connection::connect(*reactor_, client_side(), server->address());
    await(first.bootstrap<test::Echo>().echoRequest().send());
    EXPECT_FALSE(client_gone.ready());
  }
  client_gone.await();
  EXPECT_EQ(server->connections(), 0u);
  Connection second = Connection::connect(*reactor_, client_side(), server->address());
  auto echo = second.bootstrap<test::Echo>();
  await(echo.echoRequest().send());
  server.reset();
  second.disconnected().await();
  EXPECT_EQ(error_of([&] { await(echo.echoRequest().send()); }).kind(), ErrorKind::kUnavailable);
}

TEST_P(RpcTest, FramesArriveInOrderWithTheirKeyAndAreCounted) {
  constexpr int kFrames = 10'000;
  std::vector<uint64_t> numbers;
  uint64_t seen_key = 0;
  auto theirs = stream_to(numbers);
  ServerOptions options;
  options.frames_of = [&](uint64_t key, const std::string&) {
    seen_key = key;
    return theirs.get();
  };
  Server server(*reactor_, server_side(), listen_address(), options);
  auto ours = connect_frames(*reactor_, client_side(), server.address(), 42);
  for (uint64_t i = 0; i < kFrames; ++i) {
    ours->send(note(i));
  }
  ours->flush();
  reactor_->run_until([&] { return numbers.size() == kFrames; });
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_EQ(numbers[i], i);
  EXPECT_EQ(seen_key, 42u);
  EXPECT_EQ(ours->counts().frames_sent.value(), uint64_t{kFrames});
  EXPECT_LT(ours->counts().writes.value(), uint64_t{kFrames} / 10);
  EXPECT_EQ(theirs->counts().bytes_received.value(), ours->counts().bytes_sent.value());
  ours.reset();
  EXPECT_EQ(error_of([&] { theirs->closed().await(); }).kind(), ErrorKind::kUnavailable);
  theirs.reset();
}

TEST_P(RpcTest, FramesGoOnOverAnotherConnectionWhenTheirsIsLost) {
  constexpr uint64_t kFrames = 1000;
  std::vector<uint64_t> numbers;
  auto theirs = stream_to(numbers);
  ServerOptions options;
  options.frames_of = [&](uint64_t, const std::string&) { return theirs.get(); };
  Server server(*reactor_, server_side(), listen_address(), options);
  auto ours = connect_frames(*reactor_, client_side(), server.address(), 42);
  for (uint64_t i = 0; i < kFrames; ++i) {
    ours->send(note(i));
    if (i % 250 != 100) continue;
    // With this key, another connection takes the place of ours, and ends at once.
    Stream stream = client_side().connect(server.address());
    const unsigned char hello[48] = {'G', 'W', 'A', 'Y', kConnectionVersion, 1, 0, 0, 42};
    unsigned char answer[8] = {};
    await(stream->write(hello, sizeof hello));
    await(stream->read(answer, sizeof answer));
  }
  reactor_->run_until([&] { return numbers.size() >= kFrames; });
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_EQ(numbers[i], i);
  EXPECT_GT(ours->counts().reconnects.value(), 0u);
  EXPECT_EQ(ours->counts().frames_sent.value(), kFrames);
  ours.reset();
  theirs.reset();
}

TEST_P(RpcTest, ConnectionsThatNeverIdentifyThemselvesKeepNobodyOutForLong) {
  std::vector<std::string> refused;
  ServerOptions options = echo_options();
  options.on_refused = [&](const std::string&, const std::string& why) { refused.push_back(why); };
  Server server(*reactor_, server_side(), listen_address(), options);
  Connection before = Connection::connect(*reactor_, client_side(), server.address());
  std::vector<Stream> silent;
  for (size_t i = 0; i < kHalfOpenMax; ++i)
    silent.push_back(client_side().connect(server.address()));
  const Error error =
      error_of([&] { Connection::connect(*reactor_, client_side(), server.address()); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0], "256 connections have not said yet who they are: expected at most 256");
  EXPECT_NO_THROW(await(before.bootstrap<test::Echo>().echoRequest().send()));
  if (GetParam() == Wire::kSimulated) {
    reactor_->clock().sleep_for(11s);
    EXPECT_EQ(refused.size(), 1 + kHalfOpenMax) << "each has had 10 s";
  } else {
    silent.clear();
    // Until the server has noticed.
    while (!try_to_connect(server.address())) reactor_->clock().sleep_for(1ms);
  }
  EXPECT_NO_THROW(Connection::connect(*reactor_, client_side(), server.address()));
}

TEST_P(RpcTest, ConnectingToAListenerThatStaysSilentFailsSayingWhatToCheck) {
  std::array<char, 4096> heard;  // Larger than the client's message, so that it goes on reading.
  Stream taken;
  kj::Promise<void> listening = nullptr;
  auto listener = server_side().listen(listen_address(), [&](Incoming in) {
    taken = kj::mv(in.stream);
    listening = taken->tryRead(heard.data(), heard.size(), heard.size())
                    .ignoreResult()
                    .eagerlyEvaluate(nullptr);
  });
  const Error error = error_of([&] {
    Connection::connect(*reactor_, client_side(), listener->address(), {.time_limit = 50ms});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("accepted, then went silent: "));
  EXPECT_THAT(error.what(), HasSubstr("is it a Gangway process? One that has no file descriptors "
                                      "left says so in its log"));
}

TEST_P(RpcTest, BadBytesEndAFrameStreamBeforeAnythingIsAllocatedForThem) {
  std::unique_ptr<FrameStream> theirs;
  auto listener = server_side().listen(listen_address(), [&](Incoming in) {
    theirs = std::make_unique<FrameStream>(*reactor_,
                                           FrameOptions{.name = "host 3", .frame_bytes_max = 4096});
    theirs->attach(kj::mv(in.stream));
    theirs->start([](capnp::MessageReader&) {});
  });
  struct Bytes {
    internal::FramePrefix prefix;
    uint64_t message = ~uint64_t{0};
  };
  const std::vector<std::pair<Bytes, std::string>> cases = {
      {{{.words = 0x7fffffff, .epoch = 7}}, "it says it has 16.0 GiB, expected at most 4.0 KiB"},
      {{{.words = 0xffffffff, .epoch = 7}}, "expected at most 4.0 KiB"},
      {{{.words = 1, .magic = 0x1234, .epoch = 7}}, "first bytes are not those of a frame"},
      {{{.words = 0, .epoch = 7}}, "first bytes are not those of a frame"},
      {{{.words = 1, .kind = 1, .epoch = 7}}, "first bytes are not those of a frame"},
      {{{.words = 0, .kind = 99, .epoch = 7}}, "first bytes are not those of a frame"},
      {{{.words = 1, .epoch = 0, .sequence = 1}}, "it belongs to another stream"},
      {{{.words = 1, .epoch = 7, .sequence = 1, .acknowledgement = 5}},
       "it acknowledges frame 5, which was never sent"},
      {{{.words = 1, .epoch = 7, .sequence = 1}}, "malformed"}};
  for (const auto& [bytes, text] : cases) {
    Stream stream = client_side().connect(listener->address());
    await(stream->write(&bytes, sizeof bytes));
    reactor_->run_until([&] { return theirs != nullptr; });
    const Error error = error_of([&] { theirs->closed().await(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr(text));
    stream = nullptr;
    theirs.reset();
  }
}

TEST_P(RpcTest, APeerThatReadsNothingIsGivenUpWithAnErrorThatSaysSo) {
  auto theirs = std::make_unique<FrameStream>(*reactor_, FrameOptions{.name = "client"});
  ServerOptions options;
  options.frames_of = [&](uint64_t, const std::string&) { return theirs.get(); };
  Server server(*reactor_, server_side(), listen_address(), options);
  auto ours = connect_frames(*reactor_, client_side(), server.address(), 42,
                             {.name = "host 3", .queued_bytes_max = size_t{1} << 20});
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>().initText(1u << 16);
  const Frame frame = make_frame(message);
  while (!ours->closed().ready()) ours->send(frame);
  const Error error = error_of([&] { ours->closed().await(); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("host 3: reads nothing any more"));
  ours->send(frame);  // Dropped.
  ours.reset();
  theirs.reset();
}

TEST_P(RpcTest, AnyExceptionOfAFrameHandlerEndsTheStreamAtBothEnds) {
  auto theirs = std::make_unique<FrameStream>(*reactor_, FrameOptions{.name = "client"});
  theirs->start([](capnp::MessageReader&) { throw std::bad_alloc(); });
  ServerOptions options;
  options.frames_of = [&](uint64_t, const std::string&) { return theirs.get(); };
  Server server(*reactor_, server_side(), listen_address(), options);
  auto ours = connect_frames(*reactor_, client_side(), server.address(), 42);
  ours->start([](capnp::MessageReader&) {});
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>();
  ours->send(make_frame(message));
  EXPECT_EQ(error_of([&] { ours->closed().await(); }).kind(), ErrorKind::kUnavailable);
  const Error error = error_of([&] { theirs->closed().await(); });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.what(), HasSubstr("out of memory"));
  ours.reset();
  theirs.reset();
}

TEST_P(RpcTest, APeerOfAnotherWireVersionIsToldSo) {
  Server server(*reactor_, server_side(), listen_address(), echo_options());
  Stream stream = client_side().connect(server.address());
  const unsigned char hello[16] = {'G', 'W', 'A', 'Y', 99};
  unsigned char answer[8] = {};
  await(stream->write(hello, sizeof hello));
  await(stream->read(answer, sizeof answer));
  EXPECT_EQ(answer[4], kConnectionVersion);
  EXPECT_NE(answer[5], 0);
}

}  // namespace
}  // namespace gangway::server_test
