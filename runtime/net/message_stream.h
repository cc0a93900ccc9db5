// MessageStream: Cap'n Proto messages over a byte stream, as TwoPartyVatNetwork takes them.
//
// Cap'n Proto's own reader allocates what a message's first bytes promise. This one allocates as
// the message arrives: a peer costs at most three times the bytes that it has sent. Memory beyond
// the first 64 KiB of each message is taken from a MessageBudget until the message is freed.
//
// Threads: the reactor's thread.
// Ownership: the byte stream outlives the MessageStream and its promises.
// Errors, as promises: kj DISCONNECTED when the stream ends within a message, FAILED when a message
// is malformed or beyond the reader's traversal limit, OVERLOADED when the budget has no more.
// Cost: two reads for each message of up to 64 KiB, one more for each doubling.
#pragma once

#include <capnp/serialize-async.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace gangway {

// Bytes that messages may take. The messages of a connection share it; some may outlive the
// connection.
class MessageBudget {
 public:
  virtual ~MessageBudget() = default;
  virtual bool take(size_t bytes) = 0;  // Returns false if fewer are left.
  virtual void give_back(size_t bytes) = 0;
};

}  // namespace gangway

namespace gangway::internal {

class MessageStream final : public capnp::MessageStream {
 public:
  // Without a budget, messages may be as large as the peer sends them.
  explicit MessageStream(kj::AsyncIoStream& stream, std::shared_ptr<MessageBudget> budget = nullptr)
      : in_(stream), out_(stream), budget_(std::move(budget)) {}

  // Receives no file descriptors.
  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> fds, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratch) override;
  kj::Promise<void> writeMessage(
      kj::ArrayPtr<const int> fds,
      kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) override {
    return out_.writeMessage(fds, segments);
  }
  kj::Promise<void> writeMessages(
      kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) override {
    return out_.writeMessages(messages);
  }
  kj::Maybe<int> getSendBufferSize() override { return out_.getSendBufferSize(); }
  kj::Promise<void> end() override { return out_.end(); }

 private:
  kj::AsyncIoStream& in_;
  capnp::AsyncIoMessageStream out_;
  const std::shared_ptr<MessageBudget> budget_;
};

}  // namespace gangway::internal
