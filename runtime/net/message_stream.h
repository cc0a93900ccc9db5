// MessageStream: Cap'n Proto messages over a byte stream, as TwoPartyVatNetwork takes them.
//
// Cap'n Proto's own reader allocates what a message's first bytes promise. This one allocates as
// the message arrives: a peer costs at most three times the bytes that it has sent.
//
// Threads: the reactor's thread.
// Ownership: the stream outlives it and the promises it gave.
// Errors: as promises: kj DISCONNECTED when the stream ends within a message, FAILED when a message
// is malformed or beyond the reader's traversal limit.
// Cost: two reads for each message of up to 64 KiB, one more for each doubling.
#pragma once

#include <capnp/serialize-async.h>

namespace gangway::internal {

class MessageStream final : public capnp::MessageStream {
 public:
  explicit MessageStream(kj::AsyncIoStream& stream) : in_(stream), out_(stream) {}

  // File descriptors do not come along.
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
};

}  // namespace gangway::internal
