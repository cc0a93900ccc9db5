// FrameStream: one-way Cap'n Proto messages between two processes, many in one write, over one
// connection after another.
//
// Why: an RPC costs 12-15 us of CPU even when nobody waits for it. Runs are sent as frames instead:
// a frame is built once, sent as the same bytes to every host, written and read in batches, and
// answered by other frames.
//
// Loss. Each frame has a number, its sequence. It is kept until the peer acknowledges it, with the
// frames that it sends itself, or after 64 frames, a mebibyte or 200 ms without one with a prefix
// alone. When the connection is lost, the side that dialled dials again; each side then says first
// what it has received, and the other goes on behind that. A frame that was received already is
// dropped. A frame that is not the next one ends the connection, and the next connection brings
// what was missing. What stays unacknowledged for long is asked for, so that a lost last frame is
// missed too. A connection that is not back within reconnect_ms ends the stream; so does close(),
// which says goodbye, so that the peer does not dial again.
//
// Invariants: frames arrive in the order in which they were sent, each once, until the stream ends.
// Threads: the reactor's thread; others send through a DirectSender. send() never suspends: a peer
// that leaves too much unacknowledged is given up, so that nobody waits for another process inside
// the event loop. on_frame runs in the stream's reader fiber and may suspend, which holds back the
// peer. The reader passed to it is valid during the call only.
// Errors: send() throws kInvalid for a frame beyond the limit. A frame that arrives and breaks the
// format or the limit ends the stream (nothing is allocated for it), and so does one of another
// stream (its epoch differs) or an acknowledgement of what was never sent; so do errors thrown by
// on_frame. closed() then carries the reason: kUnavailable when the peer ended the stream, did not
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
  // Opens another connection to the peer. Suspends, at most for this long; throws kUnavailable or
  // kOverloaded to be asked again, another error when there is no hope.
  using Dial = std::function<Stream(Duration time_limit)>;

  // The side that is dialled: attach() brings each connection.
  FrameStream(Reactor& reactor, FrameOptions options);
  // The side that dials; the first connection is there.
  FrameStream(Reactor& reactor, Stream connection, Dial dial, FrameOptions options);
  // Drops what is still queued (see flush()) and ends the stream. Suspends.
  ~FrameStream();

  // Begins to receive; once.
  void start(std::function<void(capnp::MessageReader&)> on_frame);
  // Whenever there is nothing to write, lets others send through it; once. They do so only where
  // connections are sockets.
  void lend_to(std::shared_ptr<DirectSender> direct);
  // Whether others may send now.
  bool lends() const { return lent_; }
  // Goes on over this connection, in place of any other.
  void attach(Stream connection);
  // Queues a frame; ends the stream where the peer leaves more than queued_bytes_max already. Once
  // it has ended, frames are dropped.
  void send(Frame frame);
  // Suspends until all that was queued has been handed to the system.
  void flush();
  // Ends the stream from this side, for the peer to see; closed() becomes ready without an error.
  void close();
  // Ready when the stream has ended, with the reason as its error.
  Future<void> closed() const { return closed_.future(); }
  bool has_ended() const { return closed_.is_set(); }

  // Counts there from now on, and no more in metrics of its own.
  void count_in(Metrics& metrics, const MetricLabels& labels) { counts_.emplace(metrics, labels); }
  const FrameCounts& counts() const { return *counts_; }
  // Of the frames that the peer has not acknowledged, with those that wait to be written.
  size_t kept_bytes() const { return sent_.bytes(); }

 private:
  using Link = internal::FrameLink;
  using Kind = internal::FrameKind;

  // Fibers: one writes, one reads and delivers, one sees to connections and acknowledgements.
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
  void look_after(uint64_t told_before);

  bool owes_nothing() const { return told_ == received_ && sent_.empty(); }
  void keep_alert();
  void ask_soon_again();
  void ask_writer(Kind kind);
  void lose(const std::shared_ptr<Link>& link, const Error& why);
  void count_frames_through();
  void end(Result<void> reason);

  Reactor& reactor_;
  FrameOptions options_;
  Dial dial_;  // None on the side that is dialled.
  std::function<void(capnp::MessageReader&)> on_frame_;
  Metrics own_metrics_;
  std::optional<FrameCounts> counts_;

  std::shared_ptr<Link> link_;  // Null while there is no connection.
  bool connected_once_ = false;
  bool heard_ = false;  // Over link_: so it is known what the peer has received.
  bool peer_left_ = false;
  std::string why_lost_;
  int64_t without_ns_ = 0;  // How long there was no connection since one was of use.
  Duration pause_{0};       // Before the next dial.

  uint64_t epoch_ = 0;  // Chosen by the side that dials; 0: not known yet.
  internal::SentFrames sent_;
  internal::FrameBatch batch_;
  bool writing_ = false;
  bool writer_rests_ = false;
  std::shared_ptr<DirectSender> direct_;
  bool lent_ = false;
  std::vector<std::byte> unwritten_;  // What others sent and the system did not take; of link_.
  std::optional<Kind> due_;           // A prefix to write even if there is no frame to go with it.
  uint64_t received_ = 0;             // The last frame that arrived,
  uint64_t told_ = 0;                 // and the last that the peer was told of.
  size_t owed_frames_ = 0, owed_bytes_ = 0;
  // Ticks since the peer last acknowledged, and after how many it is asked to.
  int silent_ticks_ = 0, question_ticks_;

  WaitQueue to_write_, to_read_, to_keep_, drained_, said_goodbye_;
  bool keeper_rests_ = false;
  Promise<void> closed_;
  FiberGroup fibers_;
};

}  // namespace gangway
