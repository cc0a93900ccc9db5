#include "runtime/net/frame_link.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/units.h"
#include "runtime/fibers/kj_error.h"

namespace gangway::internal {
namespace {

constexpr size_t kInputWords = 8 << 10;
constexpr size_t kWordBytes = sizeof(capnp::word);
constexpr size_t kPrefixWords = sizeof(FramePrefix) / kWordBytes;

}  // namespace

void FrameBatch::clear() {
  for (size_t i = 0; i < count_; ++i) frames_[i].reset();
  pieces_.clear();
  count_ = bytes_ = 0;
}

void FrameBatch::add(const FramePrefix& prefix, Frame frame) {
  prefixes_[count_] = prefix;
  const auto* begin = reinterpret_cast<const kj::byte*>(&prefixes_[count_]);
  pieces_.emplace_back(begin, sizeof prefix);
  bytes_ += sizeof prefix;
  if (frame != nullptr) {
    pieces_.push_back(frame->asBytes());
    bytes_ += pieces_.back().size();
  }
  frames_[count_++] = std::move(frame);
}

FrameLink::FrameLink(Stream stream, FrameLinkOptions options,
                     const std::optional<FrameCounts>& counts)
    : stream_(kj::mv(stream)),
      options_(std::move(options)),
      counts_(counts),
      input_(kj::heapArray<capnp::word>(kInputWords)) {}

FrameLink::Arrived FrameLink::read() {
  while (true) {
    if (const std::optional<Arrived> arrived = next()) return *arrived;
    read_some();
  }
}

void FrameLink::write(const FrameBatch& batch) {
  // A socket may refuse at once, with an exception.
  auto written = kj::evalNow([&] { return stream_->write(batch.pieces()); });
  until_cut(written.then([] { return size_t{0}; }), writing_);
  counts_->writes.add();
  counts_->bytes_sent.add(batch.bytes());
}

void FrameLink::write_rest(std::vector<std::byte> bytes) {
  auto written = kj::evalNow([&] { return stream_->write(bytes.data(), bytes.size()); });
  until_cut(written.then([] { return size_t{0}; }), writing_);
}

int FrameLink::socket() const { return stream_->getFd().orDefault(-1); }

void FrameLink::cut() {
  if (std::exchange(cut_, true)) return;
  reading_.wake_all();
  writing_.wake_all();
  // Both may fail because the connection has gone already, the first also because a write is under
  // way.
  static_cast<void>(result_of([&] { stream_->shutdownWrite(); }));
  static_cast<void>(result_of([&] { stream_->abortRead(); }));
}

// Like await(), but cut() ends it.
size_t FrameLink::until_cut(kj::Promise<size_t> io, WaitQueue& changed) {
  std::optional<Result<size_t>> done;
  const kj::Promise<void> task = io.then(
                                       [&](size_t n) {
                                         done = Result<size_t>(n);
                                         changed.wake_all();
                                       },
                                       [&](kj::Exception&& exception) {
                                         done = Result<size_t>(to_error(exception));
                                         changed.wake_all();
                                       })
                                     .eagerlyEvaluate(nullptr);
  while (!done && !cut_) changed.wait("for frames to move");
  if (cut_) throw Error(ErrorKind::kUnavailable, "connection: cut");
  return done->take();
}

void FrameLink::read_some() {
  char* at = reinterpret_cast<char*>(input_.begin()) + end_bytes_;
  const size_t room = input_.size() * kWordBytes - end_bytes_;
  const size_t n = until_cut(kj::evalNow([&] { return stream_->tryRead(at, 1, room); }), reading_);
  if (n == 0) {
    throw Error(ErrorKind::kUnavailable,
                cat("the peer ended the connection",
                    end_bytes_ > begin_ * kWordBytes ? " in the middle of a frame" : ""));
  }
  counts_->reads.add();
  counts_->bytes_received.add(n);
  end_bytes_ += n;
}

// Returns nothing when the next frame has not arrived whole yet.
std::optional<FrameLink::Arrived> FrameLink::next() {
  if (whole_words() < kPrefixWords) {
    make_room(kPrefixWords + 1);
    return std::nullopt;
  }
  FramePrefix prefix;
  std::memcpy(&prefix, input_.asBytes().begin() + begin_ * kWordBytes, sizeof prefix);
  const bool is_frame = prefix.kind == static_cast<uint16_t>(FrameKind::kFrame);
  const bool is_known = prefix.kind <= static_cast<uint16_t>(FrameKind::kGoodbye);
  GW_REQUIRE(prefix.magic == kFrameMagic && is_known && is_frame == (prefix.words > 0),
             "frame from ", options_.name, ": its first bytes are not those of a frame");
  const size_t words = prefix.words + kPrefixWords;
  GW_REQUIRE(words * kWordBytes <= options_.frame_bytes_max, "frame from ", options_.name,
             ": it says it has ", format_bytes(words * kWordBytes), ", expected at most ",
             format_bytes(options_.frame_bytes_max));
  if (whole_words() < words) {
    // Grows as the frame arrives: its first bytes may promise more than ever comes.
    make_room(std::min(words, std::max(2 * whole_words(), kInputWords)));
    return std::nullopt;
  }
  const auto message = input_.slice(begin_ + kPrefixWords, begin_ + words);
  begin_ += words;
  return Arrived{prefix, message};
}

size_t FrameLink::whole_words() const { return end_bytes_ / kWordBytes - begin_; }

// Makes room for this many words from `begin_` on.
void FrameLink::make_room(size_t words) {
  const size_t held_bytes = end_bytes_ - begin_ * kWordBytes;
  if (begin_ + words <= input_.size()) return;
  kj::Array<capnp::word> moved;
  capnp::word* to = input_.begin();
  if (words > input_.size()) {
    moved = kj::heapArray<capnp::word>(words);
    to = moved.begin();
  }
  std::memmove(to, input_.begin() + begin_, held_bytes);
  if (moved.size() > 0) input_ = kj::mv(moved);
  begin_ = 0;
  end_bytes_ = held_bytes;
}

}  // namespace gangway::internal
