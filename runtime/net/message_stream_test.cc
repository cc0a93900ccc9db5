#include "runtime/net/message_stream.h"

#include <capnp/rpc-twoparty.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <vector>

#include "runtime/fibers/await.h"
#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"

namespace gangway {
namespace {

int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class MessageStreamTest : public testing::Test {
 protected:
  ~MessageStreamTest() noexcept override {}
  void write(const void* bytes, size_t size) {
    sent_ = pipe_.ends[0]->write(bytes, size).eagerlyEvaluate([](kj::Exception&&) {});
    reactor_->run_ready();
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  kj::TwoWayPipe pipe_ = kj::newTwoWayPipe();
  internal::MessageStream stream_{*pipe_.ends[1]};
  kj::Promise<void> sent_ = kj::READY_NOW;
};

TEST_F(MessageStreamTest, ReadsMessagesOfEveryNumberOfSegmentsInPiecesAndTheirEnd) {
  for (const size_t bytes : {0, 7, 8 * 1024, 65'528, 65'536, 1'000'000}) {
    for (const uint32_t first_words : {1u, 16u, 4096u}) {
      capnp::MallocMessageBuilder builder(first_words, capnp::AllocationStrategy::FIXED_SIZE);
      auto root = builder.initRoot<capnp::List<capnp::Data>>(3);
      for (kj::uint i = 0; i < 3; ++i) {
        auto data = root.init(i, static_cast<kj::uint>(bytes / 3));
        for (kj::uint at = 0; at < data.size(); ++at) data[at] = static_cast<kj::byte>(at * 7 + i);
      }
      if (builder.getSegmentsForOutput().size() > 500) continue;
      const auto flat = capnp::messageToFlatArray(builder);
      auto reading = static_cast<capnp::MessageStream&>(stream_).tryReadMessage();
      for (size_t at = 0; at < flat.asBytes().size(); at += 4099)
        write(flat.asBytes().begin() + at, std::min<size_t>(4099, flat.asBytes().size() - at));
      auto message = await(kj::mv(reading));
      KJ_IF_MAYBE (reader, message) {
        auto read = (*reader)->getRoot<capnp::List<capnp::Data>>();
        for (kj::uint i = 0; i < 3; ++i) EXPECT_TRUE(read[i] == root.asReader()[i]);
      } else {
        ADD_FAILURE() << "no message of " << bytes << " bytes";
      }
    }
  }
  pipe_.ends[0]->shutdownWrite();
  EXPECT_TRUE(await(static_cast<capnp::MessageStream&>(stream_).tryReadMessage()) == nullptr);
}

// A server whose peer reads nothing is destroyed with all its answers, on a fiber's stack.
TEST_F(MessageStreamTest, AnswersThatThePeerNeverReadsGoWithTheConnectionHoweverManyTheyAre) {
  Fiber serves = reactor_->spawn("serve", [&] {
    capnp::TwoPartyVatNetwork network(stream_, capnp::rpc::twoparty::Side::SERVER);
    auto peer = await(network.accept());
    for (uint64_t i = 0; i < 20'000; ++i) {
      auto message = peer->newOutgoingMessage(8);
      message->getBody().initAs<test::Note>().setNumber(i);
      message->send();
      WaitQueue().wait_until_ns("for the next message", reactor_->clock().now_ns() + 1);
    }
  });
  serves.join();
}

TEST_F(MessageStreamTest, AnswersThatThePeerReadsLateComeWholeAndInOrder) {
  capnp::MessageStream& stream = stream_;
  for (uint64_t i = 0; i < 100; ++i) {
    capnp::MallocMessageBuilder message;
    auto note = message.initRoot<test::Note>();
    note.setNumber(i);
    note.setText(std::string(i * 50, 'x'));
    await(stream.writeMessage(nullptr, message));
  }
  internal::MessageStream late(*pipe_.ends[0]);
  capnp::MessageStream& reads = late;
  for (uint64_t i = 0; i < 100; ++i) {
    auto message = await(reads.tryReadMessage());
    KJ_IF_MAYBE (reader, message) {
      EXPECT_EQ((*reader)->getRoot<test::Note>().getNumber(), i);
      EXPECT_EQ((*reader)->getRoot<test::Note>().getText().size(), i * 50);
    } else {
      ADD_FAILURE() << "no message " << i;
    }
  }
}

TEST_F(MessageStreamTest, TheEndOfAStreamComesBehindTheMessagesThatWait) {
  capnp::MessageStream& stream = stream_;
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>().setText(std::string(1000, 'x'));
  for (int i = 0; i < 10; ++i) await(stream.writeMessage(nullptr, message));
  bool has_ended = false;
  const auto end = stream.end().then([&] { has_ended = true; }).eagerlyEvaluate(nullptr);
  reactor_->run_ready();
  EXPECT_FALSE(has_ended);
  internal::MessageStream late(*pipe_.ends[0]);
  capnp::MessageStream& reads = late;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(await(reads.tryReadMessage()) == nullptr);
  EXPECT_TRUE(await(reads.tryReadMessage()) == nullptr);
  EXPECT_TRUE(has_ended);
}

class CountedBudget final : public MessageBudget {
 public:
  explicit CountedBudget(size_t bytes) : left_(bytes) {}
  bool take(size_t bytes) override {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void give_back(size_t bytes) override { left_ += bytes; }
  size_t left() const { return left_; }

 private:
  size_t left_;
};

TEST_F(MessageStreamTest, ALargeMessageCountsAgainstTheBudgetUntilItIsReleased) {
  constexpr size_t kBudget = 1 << 20;
  const auto budget = std::make_shared<CountedBudget>(kBudget);
  for (const size_t bytes : {size_t{1} << 10, size_t{500} << 10, size_t{5} << 20}) {
    pipe_ = kj::newTwoWayPipe();
    internal::MessageStream stream(*pipe_.ends[1], budget);
    auto reading = static_cast<capnp::MessageStream&>(stream).tryReadMessage();
    std::vector<uint32_t> message(2 + bytes / sizeof(uint32_t));
    message[1] = static_cast<uint32_t>(bytes / sizeof(capnp::word));
    write(message.data(), message.size() * sizeof(uint32_t));
    if (bytes > kBudget) {
      EXPECT_THROW(await(kj::mv(reading)), Error);
    } else {
      const auto read = await(kj::mv(reading));
      EXPECT_FALSE(read == nullptr);
      EXPECT_EQ(budget->left() == kBudget, bytes < (64 << 10)) << bytes;
    }
    sent_ = kj::READY_NOW;
  }
  EXPECT_EQ(budget->left(), kBudget);
}

TEST_F(MessageStreamTest, AnswersThatThePeerDoesNotReadEndTheConnectionOnceTheBudgetHasNoMore) {
  constexpr size_t kBudget = 1 << 20;
  const auto budget = std::make_shared<CountedBudget>(kBudget);
  {
    internal::MessageStream stream(*pipe_.ends[1], budget);
    capnp::MessageStream& sends = stream;
    auto reading = sends.tryReadMessage();
    capnp::MallocMessageBuilder message;
    message.initRoot<test::Note>().setText(std::string(100'000, 'x'));
    int sent = 0;
    EXPECT_THROW(
        {
          for (; sent < 100; ++sent) await(sends.writeMessage(nullptr, message));
        },
        Error);
    EXPECT_GT(sent, 8);
    EXPECT_LT(sent, 12);
    EXPECT_THROW(await(kj::mv(reading)), Error);
    // The message that was being written is gone: nothing of its memory goes out.
    kj::byte rest[64] = {};
    bool is_read = false;
    const auto late = pipe_.ends[0]
                          ->tryRead(rest, 1, sizeof rest)
                          .then([&](size_t) { is_read = true; })
                          .eagerlyEvaluate([](kj::Exception&&) {});
    reactor_->run_ready();
    EXPECT_FALSE(is_read);
  }
  EXPECT_EQ(budget->left(), kBudget);
}

// The budget of a peer whose unread messages do not count.
class UncountedBudget final : public MessageBudget {
 public:
  bool take(size_t) override {
    ++takes;
    return true;
  }
  void give_back(size_t) override {}
  bool counts_unread() const override { return false; }
  void too_many_unread(size_t messages) override { unread.push_back(messages); }

  int takes = 0;
  std::vector<size_t> unread;
};

TEST_F(MessageStreamTest, TooManyUnreadMessagesEndTheConnectionWhateverTheBudget) {
  const auto budget = std::make_shared<UncountedBudget>();
  internal::MessageStream stream(*pipe_.ends[1], budget);
  capnp::MessageStream& sends = stream;
  auto reading = sends.tryReadMessage();
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>().setText("unread");
  size_t sent = 0;
  EXPECT_THROW(
      {
        for (; sent < 100'000; ++sent) await(sends.writeMessage(nullptr, message));
      },
      Error);
  EXPECT_EQ(sent, internal::MessageStream::kQueuedMax);
  EXPECT_EQ(budget->unread, std::vector<size_t>{internal::MessageStream::kQueuedMax + 1});
  EXPECT_EQ(budget->takes, 0);
  EXPECT_THROW(await(kj::mv(reading)), Error);
}

TEST_F(MessageStreamTest, AMessageThatIsMalformedTooLargeOrCutShortIsAnError) {
  const std::vector<std::vector<uint32_t>> cases = {
      {0xffffffff, 1}, {511, 1}, {0, 1 << 20}, {0, 2, 1, 1}};
  for (const std::vector<uint32_t>& words : cases) {
    pipe_ = kj::newTwoWayPipe();
    internal::MessageStream stream(*pipe_.ends[1]);
    auto reading =
        static_cast<capnp::MessageStream&>(stream).tryReadMessage({.traversalLimitInWords = 1000});
    write(words.data(), words.size() * sizeof(uint32_t));
    pipe_.ends[0]->shutdownWrite();
    EXPECT_THROW(await(kj::mv(reading)), Error);
  }
}

TEST(RpcMemory, AServerAllocatesForBytesThatArrivedNotForPromisedOnes) {
  auto reactor = Reactor::make_simulated();
  SimNetwork network(*reactor);
  ServerOptions options;
  options.bootstrap = [](const Peer&) { return capnp::Capability::Client(nullptr); };
  Server server(*reactor, network.endpoint("server"), "sim:server", options);
  Stream stream = network.endpoint("client").connect(server.address());
  const unsigned char hello[48] = {'G', 'W', 'A', 'Y', kConnectionVersion};
  unsigned char answer[8] = {};
  await(stream->write(hello, sizeof hello));
  await(stream->read(answer, sizeof answer));
  const int64_t before = heap_bytes();
  const uint32_t header[6] = {0, kRpcWordsMax};
  await(stream->write(header, sizeof header));
  reactor->run_ready();
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_LT(heap_bytes() - before, int64_t{1} << 20);
  const std::vector<char> body(300'000);
  await(stream->write(body.data(), body.size()));
  reactor->run_ready();
  EXPECT_LT(heap_bytes() - before, int64_t{2} << 20);
  stream = nullptr;
  reactor->run_ready();
}

TEST(RpcMemory, AFrameStreamAllocatesForBytesThatArrivedNotForPromisedOnes) {
  auto reactor = Reactor::make_simulated();
  kj::TwoWayPipe pipe = kj::newTwoWayPipe();
  FrameStream frames(*reactor, {});
  frames.attach(kj::mv(pipe.ends[0]));
  int arrived = 0;
  frames.start([&](capnp::MessageReader&) { ++arrived; });
  reactor->run_ready();
  const int64_t before = heap_bytes();
  constexpr uint32_t kWords = 8'000'000;
  struct {
    internal::FramePrefix prefix;
    uint32_t message[2] = {0, kWords - 1};
  } const header{{.words = kWords, .epoch = 7, .sequence = 1}};
  await(pipe.ends[1]->write(&header, sizeof header));
  reactor->run_ready();
  EXPECT_LT(heap_bytes() - before, int64_t{1} << 20);
  const std::vector<char> body((kWords - 1) * 8);
  await(pipe.ends[1]->write(body.data(), body.size()));
  reactor->run_ready();
  EXPECT_EQ(arrived, 1);
}

}  // namespace
}  // namespace gangway
