// FrameStream: one-way Cap'n Proto messages between two processes, many in one write, over one
// connection after another.
//
// Why: an RPC costs 12-15 us of CPU even when nobody waits for it. Runs are sent as frames instead:
// a frame is built once, sent as the same bytes to every host, written and read in batches, and
// answered by other frames.
//
// Loss. Each frame has a number, its sequence. The sender keeps it until the peer acknowledges it.
// The peer does so in the prefixes of its own frames or, after 64 frames, a mebibyte or 200 ms
// without one of its own, in a prefix alone. When the connection is lost, the side that dialled
// dials again. Each side then first reports what it has received, and the other goes on with the
// frame after that. A duplicate is dropped. A frame that is not the next one ends the connection,
// and the next connection brings the missing frames. The sender asks about frames that stay
// unacknowledged for long, so that the loss of the last frame is noticed too. The stream ends if
// the connection is not back within reconnect_ms. It also ends with close(), which sends a goodbye,
// so that the peer does not dial again.
//
// Invariants: frames arrive in the order in which they were sent, each once, until the stream ends.
// Threads: the reactor's thread; others send through a DirectSender. send() never suspends: the
// stream ends if the peer leaves too much unacknowledged, so that nothing waits for another process
// inside the event loop. on_frame runs in the stream's reader fiber and may suspend, which holds
// back the peer. The reader passed to it is valid during the call only.
// Errors: send() throws kInvalid for a frame beyond the limit. The stream ends when a frame arrives
// that breaks the format or the limit (nothing is allocated for it) or belongs to another stream
// (its epoch differs), when the peer acknowledges a frame that was never sent, and when on_frame
// throws. closed() then carries the reason: kUnavailable when the peer ended the stream, did not
// come back or reads nothing, kInvalid for bad bytes.
// Cost: about 1 us a frame in a batch; one allocation to build one; no write of its own for an
// acknowledgement while frames go both ways.
//
// Example:
//   FrameStream frames(reactor, {.name = "executor 3"});
//   frames.start([&](capnp::MessageReader& message) { handle(message.getRoot<ToHost>()); });
//   frames.send(make_frame(builder));      // Waits for the peer, and is kept.
//   frames.attach(std::move(connection));  // The peer has dialled; server.h does this.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/future.h"
#include "runtime/net/direct_sender.h"
#include "runtime/net/frame.h"
#include "runtime/net/frame_counts.h"
#include "runtime/net/frame_link.h"
#include "runtime/net/frame_options.h"
#include "runtime/net/sent_frames.h"
#include "runtime/net/transport.h"

namespace gangway {

Frame make_frame(capnp::MessageBuilder& message);

class FrameStream {
 public:
  // Opens another connection to the peer. Suspends, at most for this long. Throws kUnavailable or
  // kOverloaded if it is worth trying again, another error if it is not.
  using Dial = std::function<Stream(Duration time_limit)>;

  // For the side that is dialled: attach() brings each connection.
  FrameStream(Reactor& reactor, FrameOptions options);
  // For the side that dials, with its first connection.
  FrameStream(Reactor& reactor, Stream connection, Dial dial, FrameOptions options);
  // Drops the frames that are still queued (see flush()) and ends the stream. Suspends.
  ~FrameStream();

  // Begins to receive. Called once.
  void start(std::function<void(capnp::MessageReader&)> on_frame);
  // Lends the connection to `direct` whenever there is nothing to write. Called once. Connections
  // that are not sockets are never lent.
  void lend_to(std::shared_ptr<DirectSender> direct);
  // Whether the connection is lent now.
  bool lends() const { return lent_; }
  // Goes on over this connection, and drops any other.
  void attach(Stream connection);
  // Queues a frame. Ends the stream if the peer has left more than queued_bytes_max unacknowledged.
  // Once the stream has ended, frames are dropped.
  void send(Frame frame);
  // Suspends until all queued frames have been handed to the system.
  void flush();
  // Ends the stream and tells the peer so; closed() becomes ready without an error.
  void close();
  // Ready when the stream has ended, with the reason as its error.
  Future<void> closed() const { return closed_.future(); }
  bool has_ended() const { return closed_.is_set(); }

  // Counts in these metrics from now on, and no longer in metrics of its own.
  void count_in(Metrics& metrics, const MetricLabels& labels) { counts_.emplace(metrics, labels); }
  const FrameCounts& counts() const { return *counts_; }
  // Bytes of the frames that the peer has not acknowledged, those that wait to be written included.
  size_t kept_bytes() const { return sent_.bytes(); }

 private:
  using Link = internal::FrameLink;
  using Kind = internal::FrameKind;

  // Three fibers: one writes, one reads and delivers, one looks after connections and
  // acknowledgements.
  void write_loop();
  void read_loop();
  void keep_up();

  bool fill_batch();
  void rest();
  void lend();
  void take_back();
  internal::FramePrefix prefix_of(Kind kind, uint64_t sequence) const;
  void say_goodbye();
  void take(const std::shared_ptr<Link>& link, const Link::Arrived& arrived);
  void take_frame(const std::shared_ptr<Link>& link, const Link::Arrived& arrived);
  void acknowledged(const internal::FramePrefix& prefix);
  void deliver(kj::ArrayPtr<const capnp::word> message);
  void connect_again();
  void give_up();
  void wait_for_peer(Duration left);
  void dial_again(Duration left);
  void look_after(uint64_t acknowledged_before);

  bool owes_nothing() const { return acknowledged_ == received_ && sent_.empty(); }
  void keep_alert();
  void ask_soon_again();
  void ask_writer(Kind kind);
  void lose(const std::shared_ptr<Link>& link, const Error& why);
  void count_frames_through();
  void end(Result<void> reason);

  Reactor& reactor_;
  FrameOptions options_;
  Dial dial_;  // Empty on the side that is dialled.
  std::function<void(capnp::MessageReader&)> on_frame_;
  Metrics own_metrics_;
  std::optional<FrameCounts> counts_;

  std::shared_ptr<Link> link_;  // Null while there is no connection.
  bool connected_once_ = false;
  bool heard_ = false;  // Whether the peer has reported over link_ what it has received.
  bool peer_left_ = false;
  std::string why_lost_;
  int64_t without_ns_ = 0;  // Time without a connection since frames last got through.
  Duration pause_{0};       // Before the next dial.

  uint64_t epoch_ = 0;  // The side that dials chooses it; 0: not known yet.
  internal::SentFrames sent_;
  internal::FrameBatch batch_;
  bool writing_ = false;
  bool writer_rests_ = false;
  std::shared_ptr<DirectSender> direct_;
  bool lent_ = false;
  // Bytes of direct sends that the system did not take, for link_.
  std::vector<std::byte> unwritten_;
  std::optional<Kind> due_;    // A prefix to write even if there is no frame to go with it.
  uint64_t received_ = 0;      // The last frame that arrived,
  uint64_t acknowledged_ = 0;  // and the last that was acknowledged to the peer.
  size_t owed_frames_ = 0, owed_bytes_ = 0;
  // Ticks since the peer last acknowledged, and the number of them after which it is asked to.
  int silent_ticks_ = 0, question_ticks_;

  WaitQueue to_write_, to_read_, to_keep_, drained_, said_goodbye_;
  bool keeper_rests_ = false;
  Promise<void> closed_;
  FiberGroup fibers_;
};

}  // namespace gangway
