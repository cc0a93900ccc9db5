#include "runtime/net/message_stream.h"

#include <capnp/serialize.h>
#include <kj/debug.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace gangway::internal {
namespace {

constexpr size_t kWord = sizeof(capnp::word);
constexpr size_t kFirstWords = 8 << 10;
constexpr size_t kFirstBytes = kFirstWords * kWord;  // They are not taken from the budget.
constexpr uint32_t kSegmentsMax = 512;

// A message as it arrives: u32 segments - 1 | u32 words of each | padding | the segments.
class Arriving final : public capnp::MessageReader {
 public:
  Arriving(kj::AsyncIoStream& in, capnp::ReaderOptions limits,
           std::shared_ptr<MessageBudget> budget)
      : MessageReader(limits),
        in_(in),
        words_max_(limits.traversalLimitInWords),
        budget_(std::move(budget)) {}
  ~Arriving() noexcept override {
    if (taken_ > 0) budget_->give_back(taken_);
  }

  // Returns false if the stream has ended before the message.
  kj::Promise<bool> read() {
    return in_.tryRead(first_, sizeof first_, sizeof first_)
        .then([this](size_t got) -> kj::Promise<bool> {
          if (got == 0) return false;
          if (got < sizeof first_)
            kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, "the stream ended in a message"));
          if (first_[0] >= kSegmentsMax)
            kj::throwFatalException(KJ_EXCEPTION(FAILED, "a message of too many segments"));
          // The sizes, the first one included, are padded to an even number of words.
          sizes_.resize(first_[0] + first_[0] % 2);
          return in_.read(sizes_.data(), sizes_.size() * sizeof(uint32_t))
              .then([this] { return read_segments(); })
              .then([] { return true; });
        });
  }

  kj::ArrayPtr<const capnp::word> getSegment(kj::uint id) override {
    if (id > first_[0]) return nullptr;
    size_t begin = 0;
    for (kj::uint before = 0; before < id; ++before) begin += size(before);
    return words_.slice(begin, begin + size(id));
  }

 private:
  size_t size(kj::uint id) const { return id == 0 ? first_[1] : sizes_[id - 1]; }

  kj::Promise<void> read_segments() {
    for (kj::uint id = 0; id <= first_[0]; ++id) total_ += size(id);
    KJ_REQUIRE(total_ <= words_max_, "a message that is too large", total_, words_max_);
    return grow();
  }

  kj::Promise<void> grow() {
    const size_t held = words_.size();
    if (held == total_) return kj::READY_NOW;
    const size_t wanted = std::min(total_, std::max(kFirstWords, 2 * held));
    take_more(wanted);
    auto more = kj::heapArray<capnp::word>(wanted);
    if (held > 0) std::memcpy(more.begin(), words_.begin(), held * kWord);
    words_ = kj::mv(more);
    return in_.read(words_.begin() + held, (words_.size() - held) * kWord).then([this] {
      return grow();
    });
  }

  void take_more(size_t words) {
    const size_t bytes = (words - std::min(words, kFirstWords)) * kWord;
    if (budget_ == nullptr || bytes <= taken_) return;
    if (!budget_->take(bytes - taken_))
      kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, "too many bytes of messages"));
    taken_ = bytes;
  }

  kj::AsyncIoStream& in_;
  const uint64_t words_max_;
  const std::shared_ptr<MessageBudget> budget_;
  size_t taken_ = 0;              // Bytes taken from the budget.
  uint32_t first_[2] = {};        // Segments - 1, and the first one's words.
  std::vector<uint32_t> sizes_;   // Words of the other segments.
  size_t total_ = 0;              // Words of all segments.
  kj::Array<capnp::word> words_;  // The received words, and room for as many again.
};

}  // namespace

MessageStream::MessageStream(kj::AsyncIoStream& stream, std::shared_ptr<MessageBudget> budget)
    : stream_(stream), budget_(std::move(budget)) {}

MessageStream::~MessageStream() noexcept { give_back(); }

void MessageStream::give_back() {
  if (taken_ > 0) budget_->give_back(std::exchange(taken_, 0));
}

void MessageStream::stop_writing(const kj::Exception& why) {
  queue_.clear();
  queued_bytes_ = 0;
  give_back();
  broken_ = kj::cp(why);
  KJ_IF_MAYBE (drained, on_drained_) (*drained)->reject(kj::cp(why));
  ended_.fulfiller->reject(kj::cp(why));
}

// Never called by `writing_`, which it destroys: a write that waits points into the queue.
void MessageStream::end_connection(const kj::Exception& why) {
  writing_ = kj::READY_NOW;
  stop_writing(why);
}

void MessageStream::enqueue(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  if (broken_ != nullptr) return;
  queue_.push_back(capnp::messageToFlatArray(segments));
  queued_bytes_ += queue_.back().asBytes().size();
  const size_t counted = queued_bytes_ - std::min(queued_bytes_, kFirstBytes);
  if (budget_ != nullptr && budget_->counts_unread() && counted > taken_) {
    if (!budget_->take(counted - taken_))
      return end_connection(KJ_EXCEPTION(OVERLOADED, "too many bytes that the peer does not read"));
    taken_ = counted;
  }
  if (queue_.size() > kQueuedMax) {
    if (budget_ != nullptr) budget_->too_many_unread(queue_.size());
    return end_connection(
        KJ_EXCEPTION(OVERLOADED, "too many messages that the peer does not read"));
  }
  if (std::exchange(is_writing_, true)) return;
  writing_ = write_queue().eagerlyEvaluate([this](kj::Exception&& why) { stop_writing(why); });
}

kj::Promise<void> MessageStream::write_queue() {
  if (queue_.empty()) {
    is_writing_ = false;
    give_back();
    KJ_IF_MAYBE (drained, on_drained_) (*drained)->fulfill();
    return kj::READY_NOW;
  }
  const kj::ArrayPtr<const kj::byte> bytes = queue_.front().asBytes();
  return stream_.write(bytes.begin(), bytes.size()).then([this] {
    queued_bytes_ -= queue_.front().asBytes().size();
    queue_.pop_front();
    return write_queue();
  });
}

kj::Promise<void> MessageStream::outcome_of_write() {
  KJ_IF_MAYBE (why, broken_) return kj::cp(*why);
  return kj::READY_NOW;
}

kj::Promise<void> MessageStream::writeMessage(
    kj::ArrayPtr<const int>, kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  enqueue(segments);
  return outcome_of_write();
}

kj::Promise<void> MessageStream::writeMessages(
    kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) {
  for (const auto& segments : messages) enqueue(segments);
  return outcome_of_write();
}

kj::Maybe<int> MessageStream::getSendBufferSize() {
  return capnp::AsyncIoMessageStream(stream_).getSendBufferSize();
}

kj::Promise<void> MessageStream::end() {
  if (!is_writing_ || broken_ != nullptr) {
    stream_.shutdownWrite();
    return kj::READY_NOW;
  }
  auto drained = kj::newPromiseAndFulfiller<void>();
  on_drained_ = kj::mv(drained.fulfiller);
  return drained.promise.then([this] { stream_.shutdownWrite(); });
}

kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> MessageStream::tryReadMessage(
    kj::ArrayPtr<kj::AutoCloseFd>, capnp::ReaderOptions options, kj::ArrayPtr<capnp::word>) {
  auto message = kj::heap<Arriving>(stream_, options, budget_);
  auto stopped = end_of_reading_.addBranch().then([] { return false; });
  auto arrived = message->read().exclusiveJoin(kj::mv(stopped));
  return arrived.then(
      [message = kj::mv(message)](bool there) mutable -> kj::Maybe<capnp::MessageReaderAndFds> {
        if (!there) return nullptr;
        return capnp::MessageReaderAndFds{kj::mv(message), nullptr};
      });
}

}  // namespace gangway::internal
