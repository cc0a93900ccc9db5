#include "runtime/net/frames.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/units.h"
#include "runtime/fibers/await.h"

namespace gangway {
namespace {

using internal::FramePrefix;

constexpr size_t kWord = sizeof(capnp::word);
// An acknowledgement that no frame carries is sent by itself after this many frames or bytes, or
// after one to two ticks.
constexpr size_t kOwedFramesMax = 64;
constexpr size_t kOwedBytesMax = 1 << 20;
constexpr Duration kTick = std::chrono::milliseconds(100);
// A missing acknowledgement is asked for after this many ticks, then after twice as many, and so
// on.
constexpr int kQuestionTicksFirst = 4;
constexpr int kQuestionTicksMax = 600;
constexpr Duration kPauseFirst = std::chrono::milliseconds(10);
constexpr Duration kPauseMax = std::chrono::milliseconds(500);
constexpr Duration kWaitStep = std::chrono::milliseconds(500);
constexpr Duration kGoodbyeTimeLimit = std::chrono::milliseconds(100);

}  // namespace

Frame make_frame(capnp::MessageBuilder& message) {
  const auto segments = message.getSegmentsForOutput();
  const size_t words = capnp::computeSerializedSizeInWords(segments);
  auto frame = kj::heapArray<capnp::word>(words);
  kj::ArrayOutputStream out(frame.asBytes());
  capnp::writeMessage(out, segments);
  return std::make_shared<const kj::Array<capnp::word>>(kj::mv(frame));
}

FrameStream::FrameStream(Reactor& reactor, FrameOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      question_ticks_(kQuestionTicksFirst),
      fibers_(reactor) {
  count_in(own_metrics_, {});
  fibers_.spawn("frames to " + options_.name, [this] { write_loop(); });
  fibers_.spawn("frames from " + options_.name, [this] { read_loop(); });
  fibers_.spawn("connection to " + options_.name, [this] { keep_up(); });
}

FrameStream::FrameStream(Reactor& reactor, Stream connection, Dial dial, FrameOptions options)
    : FrameStream(reactor, std::move(options)) {
  dial_ = std::move(dial);
  // No other stream to this peer began at this time, not even one of an earlier process.
  epoch_ = static_cast<uint64_t>(reactor.clock().wall_ns()) | 1;
  attach(kj::mv(connection));
}

FrameStream::~FrameStream() {
  close();
  if (direct_ != nullptr) direct_->on_unwritten = nullptr;
  const int64_t deadline_ns = reactor_.clock().now_ns() + kGoodbyeTimeLimit.count();
  try {
    while (link_ != nullptr && said_goodbye_.wait_until_ns("until goodbye is said", deadline_ns)) {
    }
  } catch (const Error&) {  // The destroying fiber is cancelled: end without a goodbye.
  }
  fibers_.cancel();
}

void FrameStream::start(std::function<void(capnp::MessageReader&)> on_frame) {
  GW_ASSERT(!on_frame_, "a frame stream is started once");
  on_frame_ = std::move(on_frame);
  to_read_.wake_all();
}

void FrameStream::lend_to(std::shared_ptr<DirectSender> direct) {
  direct_ = std::move(direct);
  direct_->on_unwritten = [this] { take_back(); };
  lend();
}

void FrameStream::attach(Stream connection) {
  if (closed_.is_set()) return;
  lose(link_, Error(ErrorKind::kUnavailable, "the peer opened another connection"));
  link_ = std::make_shared<Link>(
      kj::mv(connection), internal::FrameLinkOptions{options_.name, options_.frame_bytes_max},
      counts_);
  if (std::exchange(connected_once_, true)) counts_->reconnects.add();
  heard_ = false;
  ask_soon_again();
  due_ = Kind::kAcknowledgement;
  sent_.rewind();
  to_write_.wake_all();
  to_read_.wake_all();
  to_keep_.wake_all();
}

void FrameStream::send(Frame frame) {
  const size_t bytes = internal::SentFrames::bytes_of(frame);
  GW_REQUIRE(bytes <= options_.frame_bytes_max, "frame for ", options_.name, ": it has ",
             format_bytes(bytes), ", expected at most ", format_bytes(options_.frame_bytes_max));
  if (closed_.is_set()) return;
  take_back();
  if (sent_.bytes() > options_.queued_bytes_max) {
    return end(
        Error(ErrorKind::kUnavailable,
              cat(options_.name, ": reads nothing any more: ", format_bytes(sent_.bytes()),
                  " wait for it, expected at most ", format_bytes(options_.queued_bytes_max))));
  }
  sent_.push(std::move(frame));
  to_write_.wake_one();
  keep_alert();
}

void FrameStream::flush() {
  take_back();
  while ((sent_.waiting() || writing_ || !unwritten_.empty()) && !closed_.is_set())
    drained_.wait("for frames to be written");
}

void FrameStream::close() { end(Result<void>()); }

void FrameStream::end(Result<void> reason) {
  if (closed_.is_set()) return;
  take_back();
  sent_.clear();
  closed_.finish(std::move(reason));
  to_write_.wake_all();  // The writer sends the goodbye.
  to_read_.wake_all();
  to_keep_.wake_all();
  drained_.wake_all();
}

// Drops a link. Frames under way over it are lost with it.
void FrameStream::lose(const std::shared_ptr<Link>& link, const Error& why) {
  if (link == nullptr) return;
  if (link == link_) take_back();
  link->cut();
  if (link != link_) return;  // Another link has replaced it already.
  link_.reset();
  unwritten_.clear();
  why_lost_ = why.message();
  to_keep_.wake_all();
}

// Frames got through: when this connection is lost, the next one has the whole time limit again.
void FrameStream::count_frames_through() {
  without_ns_ = 0;
  pause_ = Duration(0);
}

// Called when a connection to the peer exists, and when the peer acknowledges more frames: counts
// its silence from now on, and asks it after the shortest time again.
void FrameStream::ask_soon_again() {
  silent_ticks_ = 0;
  question_ticks_ = kQuestionTicksFirst;
}

void FrameStream::ask_writer(Kind kind) {
  take_back();
  if (due_ != Kind::kQuestion) due_ = kind;
  to_write_.wake_one();
}

void FrameStream::keep_alert() {
  if (keeper_rests_) to_keep_.wake_all();
}

// --- Writing -------------------------------------------------------------------------------------

void FrameStream::write_loop() {
  while (!closed_.is_set()) {
    const bool is_rest = link_ != nullptr && !unwritten_.empty();
    if (!is_rest && !fill_batch()) {
      rest();
      continue;
    }
    const std::shared_ptr<Link> link = link_;
    writing_ = true;
    if (options_.pacer != nullptr) options_.pacer->write(batch_.frames(), batch_.bytes());
    const Result<void> written = result_of(
        [&] { is_rest ? link->write_rest(std::exchange(unwritten_, {})) : link->write(batch_); });
    writing_ = false;
    drained_.wake_all();
    if (written.ok()) continue;
    if (written.error().kind() == ErrorKind::kCancelled) throw written.error();
    lose(link, written.error());
  }
  say_goodbye();
}

void FrameStream::rest() {
  writer_rests_ = true;
  lend();
  to_write_.wait("for frames to send");
  writer_rests_ = false;
  take_back();
}

// Lends the connection, if nothing waits to be written and it is known what the peer has received.
void FrameStream::lend() {
  if (direct_ == nullptr || lent_ || closed_.is_set() || link_ == nullptr || !heard_) return;
  if (!writer_rests_ || sent_.waiting() || due_ || !unwritten_.empty()) return;
  if (sent_.bytes() > DirectSender::kBytesMax || link_->socket() < 0) return;
  lent_ = true;
  direct_->lend({link_->socket(), epoch_, sent_.last(), received_});
}

// Takes over the frames that were sent during the loan as if this stream had sent them.
void FrameStream::take_back() {
  if (!std::exchange(lent_, false)) return;
  DirectSender::Returned returned = direct_->take_back();
  if (returned.frames.empty()) return;
  for (Frame& frame : returned.frames) {
    sent_.push(std::move(frame));
    static_cast<void>(sent_.next());
    counts_->frames_sent.add();
  }
  counts_->writes.add(returned.writes);
  counts_->bytes_sent.add(returned.bytes);
  acknowledged_ = received_;
  owed_frames_ = owed_bytes_ = 0;
  keep_alert();
  if (returned.unwritten.empty()) return;
  unwritten_ = std::move(returned.unwritten);
  to_write_.wake_one();
}

// Returns false if nothing may be written now.
bool FrameStream::fill_batch() {
  batch_.clear();
  if (link_ == nullptr || epoch_ == 0) return false;
  // Until the peer has reported what it has received, it is unknown which frame is the next.
  while (heard_ && sent_.waiting() && !batch_.full()) {
    const internal::SentFrames::Next next = sent_.next();
    FramePrefix prefix = prefix_of(Kind::kFrame, next.sequence);
    prefix.words = static_cast<uint32_t>(next.frame->size());
    batch_.add(prefix, next.frame);
    (next.again ? counts_->frames_resent : counts_->frames_sent).add();
  }
  if (batch_.empty()) {
    if (!due_) return false;
    // Before the peer has reported, no frame was written to this connection.
    batch_.add(prefix_of(*due_, heard_ ? sent_.last() : sent_.acknowledged()), nullptr);
  }
  due_.reset();
  acknowledged_ = received_;
  owed_frames_ = owed_bytes_ = 0;
  return true;
}

FramePrefix FrameStream::prefix_of(Kind kind, uint64_t sequence) const {
  return {.kind = static_cast<uint16_t>(kind),
          .epoch = epoch_,
          .sequence = sequence,
          .acknowledgement = received_};
}

void FrameStream::say_goodbye() {
  const std::shared_ptr<Link> link = link_;
  if (link != nullptr && epoch_ != 0 && !peer_left_) {
    batch_.clear();
    batch_.add(prefix_of(Kind::kGoodbye, 0), nullptr);
    const Result<void> written = result_of([&] {
      if (!unwritten_.empty()) link->write_rest(std::exchange(unwritten_, {}));
      link->write(batch_);
    });
    if (!written.ok() && written.error().kind() == ErrorKind::kCancelled) throw written.error();
  }
  if (link != nullptr) link->cut();
  link_.reset();
  said_goodbye_.wake_all();
}

// --- Reading -------------------------------------------------------------------------------------

void FrameStream::read_loop() {
  try {
    while (!closed_.is_set()) {
      const std::shared_ptr<Link> link = link_;
      if (link == nullptr) {
        to_read_.wait("for a connection");
        continue;
      }
      const Result<Link::Arrived> arrived = result_of([&] { return link->read(); });
      if (closed_.is_set()) return;
      if (arrived.ok()) {
        if (link == link_) take(link, arrived.value());
        lend();
      } else if (arrived.error().kind() == ErrorKind::kUnavailable) {
        lose(link, arrived.error());
      } else {
        throw arrived.error();
      }
    }
  } catch (const kj::Exception& exception) {  // Raised by reading a malformed message.
    end(Error(ErrorKind::kInvalid, cat("frame from ", options_.name,
                                       ": malformed: ", exception.getDescription().cStr())));
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kCancelled && !closed_.is_set()) throw;
    end(error.add_context(cat("frames from ", options_.name)));
  } catch (const std::exception&) {  // on_frame threw; the peer must not wait for ever.
    end(current_error().add_context(cat("frames from ", options_.name)));
  }
}

void FrameStream::take(const std::shared_ptr<Link>& link, const Link::Arrived& arrived) {
  const FramePrefix& prefix = arrived.prefix;
  take_back();
  if (epoch_ == 0) {
    epoch_ = prefix.epoch;
    to_write_.wake_all();
  }
  GW_REQUIRE(prefix.epoch == epoch_ && epoch_ != 0, "frame from ", options_.name,
             ": it belongs to another stream: expected epoch ", epoch_, ", got ", prefix.epoch);
  const bool first = !heard_;
  acknowledged(prefix);
  const Kind kind{prefix.kind};
  if (kind == Kind::kFrame) return take_frame(link, arrived);
  if (kind == Kind::kGoodbye) {
    peer_left_ = true;
    return end(Error(ErrorKind::kUnavailable, cat(options_.name, ": the peer ended the stream")));
  }
  // The first prefix of a connection comes before the frames that its sender is going to repeat.
  if (prefix.sequence > received_ && !first) {
    return lose(link,
                Error(ErrorKind::kUnavailable, cat("frames were lost: the peer has sent ",
                                                   prefix.sequence, ", ", received_, " arrived")));
  }
  if (prefix.sequence == received_ && sent_.empty()) without_ns_ = 0;
  if (kind == Kind::kQuestion) ask_writer(Kind::kAcknowledgement);
}

void FrameStream::acknowledged(const FramePrefix& prefix) {
  const uint64_t before = sent_.acknowledged();
  GW_REQUIRE(sent_.acknowledge(prefix.acknowledgement), "frame from ", options_.name,
             ": it acknowledges frame ", prefix.acknowledgement, ", which was never sent");
  if (sent_.acknowledged() != before) {
    count_frames_through();
    ask_soon_again();
  }
  if (std::exchange(heard_, true)) return;
  to_write_.wake_all();
}

void FrameStream::take_frame(const std::shared_ptr<Link>& link, const Link::Arrived& arrived) {
  const uint64_t sequence = arrived.prefix.sequence;
  if (sequence <= received_) return;  // A duplicate.
  if (sequence != received_ + 1) {
    return lose(link, Error(ErrorKind::kUnavailable,
                            cat("frames were lost: frame ", sequence, " came after ", received_)));
  }
  received_ = sequence;
  count_frames_through();
  owed_bytes_ += arrived.message.size() * kWord;
  if (++owed_frames_ >= kOwedFramesMax || owed_bytes_ >= kOwedBytesMax)
    ask_writer(Kind::kAcknowledgement);
  keep_alert();
  lend();  // The receiver of this frame may send the next one directly.
  deliver(arrived.message);
}

void FrameStream::deliver(kj::ArrayPtr<const capnp::word> message) {
  while (!on_frame_ && !closed_.is_set()) to_read_.wait("for somebody to take frames");
  if (closed_.is_set()) return;
  capnp::ReaderOptions limits;
  limits.traversalLimitInWords = 8 * message.size() + 1024;
  capnp::FlatArrayMessageReader reader(message, limits);
  counts_->frames_received.add();
  if (options_.pacer == nullptr) return on_frame_(reader);
  options_.pacer->begin_frame(message.size() * kWord);
  if (closed_.is_set()) return;
  on_frame_(reader);
  options_.pacer->end_frame();
}

// --- Connections and acknowledgements ------------------------------------------------------------

void FrameStream::keep_up() {
  while (!closed_.is_set()) {
    if (link_ == nullptr) {
      connect_again();
    } else if (owes_nothing()) {
      keeper_rests_ = true;
      to_keep_.wait("for frames");
      keeper_rests_ = false;
    } else {
      const uint64_t acknowledged = acknowledged_;
      const int64_t tick_ns = reactor_.clock().now_ns() + kTick.count();
      if (!to_keep_.wait_until_ns("for acknowledgements", tick_ns)) look_after(acknowledged);
    }
  }
}

// Called after a tick. `acknowledged_before` is the last frame that had been acknowledged when the
// tick began.
void FrameStream::look_after(uint64_t acknowledged_before) {
  if (received_ > acknowledged_ && acknowledged_ == acknowledged_before)
    ask_writer(Kind::kAcknowledgement);
  if (!sent_.empty() && ++silent_ticks_ >= question_ticks_) {
    silent_ticks_ = 0;
    question_ticks_ = std::min(2 * question_ticks_, kQuestionTicksMax);
    ask_writer(Kind::kQuestion);
  }
}

void FrameStream::connect_again() {
  const Duration left(options_.reconnect_ms * 1'000'000 - without_ns_);
  if (left.count() <= 0) return give_up();
  if (dial_) {
    dial_again(left);
  } else {
    wait_for_peer(left);
  }
}

void FrameStream::give_up() {
  const std::string time = format_duration_ns(options_.reconnect_ms * 1'000'000);
  end(Error(ErrorKind::kUnavailable, connected_once_
                                         ? cat(options_.name, ": the connection was lost (",
                                               why_lost_, ") and did not come back within ", time)
                                         : cat(options_.name, ": did not connect within ", time)));
}

// Waits for one step only. When this process was stopped, at most one step counts as waited, and a
// peer that dialled meanwhile is still let in.
void FrameStream::wait_for_peer(Duration left) {
  const int64_t begin_ns = reactor_.clock().now_ns();
  const int64_t step_ns = std::min(left, kWaitStep).count();
  to_keep_.wait_until_ns("for the peer to connect", begin_ns + step_ns);
  without_ns_ += std::min(reactor_.clock().now_ns() - begin_ns, step_ns);
}

void FrameStream::dial_again(Duration left) {
  const int64_t begin_ns = reactor_.clock().now_ns();
  const Duration pause = std::min(pause_, left);
  if (pause.count() > 0) to_keep_.wait_until_ns("to dial again", begin_ns + pause.count());
  if (closed_.is_set()) return;
  pause_ = std::clamp(2 * pause_, kPauseFirst, kPauseMax);
  Result<Stream> dialled = result_of([&] { return dial_(left - pause); });
  without_ns_ += reactor_.clock().now_ns() - begin_ns;
  if (dialled.ok()) return attach(dialled.take());
  const Error& error = dialled.error();
  switch (error.kind()) {
    case ErrorKind::kCancelled: throw error;
    case ErrorKind::kUnavailable:
    case ErrorKind::kOverloaded: why_lost_ = error.message(); return;
    case ErrorKind::kInvalid:
    case ErrorKind::kOverflow:
    case ErrorKind::kLost:
    case ErrorKind::kUnimplemented:
    case ErrorKind::kBug:
      return end(Error(ErrorKind::kUnavailable,
                       cat(options_.name, ": the connection was lost (", why_lost_,
                           ") and can't be opened again: ", error.message())));
  }
}

}  // namespace gangway
