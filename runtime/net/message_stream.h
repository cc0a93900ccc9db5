// MessageStream: Cap'n Proto messages over a byte stream, as TwoPartyVatNetwork takes them.
//
// Cap'n Proto's own reader allocates what a message's first bytes promise. This one allocates as
// the message arrives: a peer costs at most three times the bytes that it has sent. Memory beyond
// the first 64 KiB of each message is taken from a MessageBudget until the message is freed.
//
// Messages that are sent are copied into a queue, from which they are written as the peer reads
// them. TwoPartyVatNetwork would hang each message that waits on the one before it, and destroy
// that chain by recursion: a peer that reads nothing could overflow the stack of its connection's
// fiber. What the queue has beyond 64 KiB is taken from the budget too, and a connection that can't
// have it ends.
//
// Threads: the reactor's thread.
// Ownership: the byte stream outlives the MessageStream and its promises.
// Errors, as promises: kj DISCONNECTED when the stream ends within a message, FAILED when a message
// is malformed or beyond the reader's traversal limit, OVERLOADED when the budget has no more.
// Cost: two reads for each message of up to 64 KiB, one more for each doubling. A copy and a write
// for each message that is sent.
#pragma once

#include <capnp/serialize-async.h>

#include <cstddef>
#include <deque>
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
  // Whether messages that the peer does not read are taken from it too.
  virtual bool counts_unread() const { return true; }
  // Called before a connection ends whose peer has left this many messages unread.
  virtual void too_many_unread(size_t /*messages*/) {}
};

}  // namespace gangway

namespace gangway::internal {

class MessageStream final : public capnp::MessageStream {
 public:
  // More messages than these in the queue end the connection, whatever the budget is.
  static constexpr size_t kQueuedMax = size_t{1} << 16;

  // Without a budget, messages may be as large as the peer sends them.
  explicit MessageStream(kj::AsyncIoStream& stream,
                         std::shared_ptr<MessageBudget> budget = nullptr);
  ~MessageStream() noexcept;

  // Receives no file descriptors.
  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> fds, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratch) override;
  kj::Promise<void> writeMessage(
      kj::ArrayPtr<const int> fds,
      kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) override;
  kj::Promise<void> writeMessages(
      kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) override;
  kj::Maybe<int> getSendBufferSize() override;
  kj::Promise<void> end() override;

 private:
  void enqueue(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments);
  kj::Promise<void> write_queue();
  kj::Promise<void> outcome_of_write();
  void give_back();
  void stop_writing(const kj::Exception& why);
  void end_connection(const kj::Exception& why);

  kj::AsyncIoStream& stream_;
  const std::shared_ptr<MessageBudget> budget_;
  std::deque<kj::Array<capnp::word>> queue_;  // The first one is being written.
  size_t queued_bytes_ = 0;
  size_t taken_ = 0;  // Bytes of the queue that were taken from the budget.
  bool is_writing_ = false;
  kj::Maybe<kj::Exception> broken_;                            // Why nothing more is written.
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> on_drained_;  // Set by end().
  kj::PromiseFulfillerPair<void> ended_ = kj::newPromiseAndFulfiller<void>();
  kj::ForkedPromise<void> end_of_reading_ = ended_.promise.fork();  // Rejected, if anything.
  kj::Promise<void> writing_ = kj::READY_NOW;  // Destroyed before what it uses.
};

}  // namespace gangway::internal
