#include "runtime/net/frames.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/units.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

constexpr uint32_t kMagic = 0x52465747;  // "GWFR"
constexpr size_t kFramesPerWrite = 64;
constexpr size_t kInputWords = 8 << 10;
constexpr size_t kWord = sizeof(capnp::word);

struct Prefix {
  uint32_t words;
  uint32_t magic;
};
static_assert(sizeof(Prefix) == kWord);

}  // namespace

Frame make_frame(capnp::MessageBuilder& message) {
  const auto segments = message.getSegmentsForOutput();
  const size_t words = capnp::computeSerializedSizeInWords(segments);
  auto frame = kj::heapArray<capnp::word>(words + 1);
  const Prefix prefix{static_cast<uint32_t>(words), kMagic};
  std::memcpy(frame.asBytes().begin(), &prefix, kWord);
  kj::ArrayOutputStream out(frame.slice(1, words + 1).asBytes());
  capnp::writeMessage(out, segments);
  return std::make_shared<const kj::Array<capnp::word>>(kj::mv(frame));
}

FrameCounts::FrameCounts(Metrics& metrics, const MetricLabels& labels)
    : frames_sent(metrics.counter("gangway_frames_sent_total", "Frames sent", labels)),
      bytes_sent(metrics.counter("gangway_frame_bytes_sent_total", "Bytes of frames sent", labels)),
      writes(metrics.counter("gangway_frame_writes_total", "Writes of many frames each", labels)),
      frames_received(metrics.counter("gangway_frames_received_total", "Frames received", labels)),
      bytes_received(metrics.counter("gangway_frame_bytes_received_total",
                                     "Bytes of frames received", labels)),
      reads(metrics.counter("gangway_frame_reads_total", "Reads of many frames each", labels)) {}

// Received words: [begin, end) are not yet delivered; the last may be cut short.
struct FrameStream::Input {
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(kInputWords);
  size_t begin = 0;      // In words: frames are aligned.
  size_t end_bytes = 0;  // In bytes.

  size_t whole_words() const { return end_bytes / kWord - begin; }
  // Room for `needed` words from `begin` on.
  void make_room(size_t needed) {
    const size_t held_bytes = end_bytes - begin * kWord;
    if (begin + needed <= words.size()) return;
    kj::Array<capnp::word> moved;
    capnp::word* to = words.begin();
    if (needed > words.size()) {
      moved = kj::heapArray<capnp::word>(needed);
      to = moved.begin();
    }
    std::memmove(to, words.begin() + begin, held_bytes);
    if (moved.size() > 0) words = kj::mv(moved);
    begin = 0;
    end_bytes = held_bytes;
  }
};

FrameStream::FrameStream(Reactor& reactor, Stream stream, FrameOptions options)
    : options_(std::move(options)), stream_(kj::mv(stream)), fibers_(reactor) {
  count_in(own_metrics_, {});
  fibers_.spawn("frames to " + options_.name, [this] { write_loop(); });
}

FrameStream::~FrameStream() {
  close();
  fibers_.cancel();
}

void FrameStream::start(std::function<void(capnp::MessageReader&)> on_frame) {
  GW_ASSERT(!on_frame_, "a frame stream is started once");
  on_frame_ = std::move(on_frame);
  fibers_.spawn("frames from " + options_.name, [this] { read_loop(); });
}

void FrameStream::send(Frame frame) {
  const size_t bytes = frame->size() * kWord;
  GW_REQUIRE(bytes <= options_.frame_bytes_max, "frame for ", options_.name, ": it has ",
             format_bytes(bytes), ", expected at most ", format_bytes(options_.frame_bytes_max));
  if (closed_.is_set()) return;
  if (queued_bytes_ > options_.queued_bytes_max) {
    return end(
        Error(ErrorKind::kUnavailable,
              cat(options_.name, ": reads nothing any more: ", format_bytes(queued_bytes_),
                  " wait for it, expected at most ", format_bytes(options_.queued_bytes_max))));
  }
  queued_bytes_ += bytes;
  queue_.push_back(std::move(frame));
  queued_.wake_one();
}

void FrameStream::flush() {
  while (queued_bytes_ > 0 && !closed_.is_set()) drained_.wait("for frames to be written");
}

void FrameStream::close() { end(Result<void>()); }

void FrameStream::end(Result<void> reason) {
  if (closed_.is_set()) return;
  queue_.clear();
  queued_bytes_ = 0;
  closed_.finish(std::move(reason));
  drained_.wake_all();
  queued_.wake_all();
  try {
    stream_->shutdownWrite();
    stream_->abortRead();
  } catch (const kj::Exception&) {  // It was gone already.
  }
}

void FrameStream::write_loop() {
  std::vector<Frame> batch;
  std::vector<kj::ArrayPtr<const kj::byte>> pieces;
  while (!closed_.is_set()) {
    if (queue_.empty()) {
      queued_.wait("for frames to send");
      continue;
    }
    batch.clear();
    pieces.clear();
    size_t bytes = 0;
    for (; !queue_.empty() && batch.size() < kFramesPerWrite; queue_.pop_front()) {
      batch.push_back(std::move(queue_.front()));
      pieces.push_back(batch.back()->asBytes());
      bytes += pieces.back().size();
    }
    try {
      await(stream_->write(kj::arrayPtr(pieces.data(), pieces.size())));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      return end(Error(ErrorKind::kUnavailable,
                       cat(options_.name, ": connection lost while sending: ", error.message())));
    }
    counts_->writes.add();
    counts_->frames_sent.add(batch.size());
    counts_->bytes_sent.add(bytes);
    if (closed_.is_set()) return;
    queued_bytes_ -= bytes;
    drained_.wake_all();
  }
}

void FrameStream::read_loop() {
  Input input;
  try {
    while (!closed_.is_set()) {
      while (!closed_.is_set() && deliver_one(input)) {
      }
      if (!closed_.is_set()) read_some(input);
    }
  } catch (const kj::Exception& exception) {  // Raised by reading a malformed message.
    end(Error(ErrorKind::kInvalid, cat("frame from ", options_.name,
                                       ": malformed: ", exception.getDescription().cStr())));
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kCancelled && !closed_.is_set()) throw;
    end(error.add_context(cat("frames from ", options_.name)));
  } catch (const std::exception&) {  // Of whoever handles them; the peer must not wait for ever.
    end(current_error().add_context(cat("frames from ", options_.name)));
  }
}

void FrameStream::read_some(Input& input) {
  char* at = reinterpret_cast<char*>(input.words.begin()) + input.end_bytes;
  const size_t room = input.words.size() * kWord - input.end_bytes;
  const size_t n = await(stream_->tryRead(at, 1, room));
  if (n == 0) {
    throw Error(ErrorKind::kUnavailable,
                cat(options_.name, ": the peer ended the connection",
                    input.end_bytes > input.begin * kWord ? " in the middle of a frame" : ""));
  }
  counts_->reads.add();
  counts_->bytes_received.add(n);
  input.end_bytes += n;
}

// False when the next frame is not all there yet.
bool FrameStream::deliver_one(Input& input) {
  if (input.whole_words() == 0) {
    input.make_room(1 + 1);
    return false;
  }
  Prefix prefix;
  std::memcpy(&prefix, input.words.begin() + input.begin, kWord);
  GW_REQUIRE(prefix.magic == kMagic && prefix.words > 0, "frame from ", options_.name,
             ": its first bytes are not those of a frame");
  const size_t words = size_t{prefix.words} + 1;
  GW_REQUIRE(words * kWord <= options_.frame_bytes_max, "frame from ", options_.name,
             ": it says it has ", format_bytes(words * kWord), ", expected at most ",
             format_bytes(options_.frame_bytes_max));
  if (input.whole_words() < words) {
    // Grows as the frame arrives: its first bytes may promise more than ever comes.
    input.make_room(std::min(words, std::max(2 * input.whole_words(), kInputWords)));
    return false;
  }
  const auto message = input.words.slice(input.begin + 1, input.begin + words);
  capnp::ReaderOptions limits;
  limits.traversalLimitInWords = 8 * words + 1024;
  capnp::FlatArrayMessageReader reader(message, limits);
  counts_->frames_received.add();
  input.begin += words;
  on_frame_(reader);
  return true;
}

}  // namespace gangway
