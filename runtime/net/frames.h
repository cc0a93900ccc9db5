// FrameStream: one-way Cap'n Proto messages over a stream of their own, many in one write.
//
// Why: an RPC costs 12-15 us of CPU even when nobody waits for it. Runs are sent as frames instead:
// a frame is built once, sent as the same bytes to every host, written and read in batches, and
// answered by other frames.
//
//   frame:  u32 words in the message | u32 magic "GWFR" | one Cap'n Proto message in stream framing
//
// Invariants: frames arrive in the order in which they were sent, each once, until the stream ends.
// Threads: the reactor's thread. send() never suspends: a peer that lets too much wait is given up,
// so that nobody waits for another process inside the event loop. on_frame runs in the stream's
// reader fiber and may suspend, which holds back the peer. The reader passed to it is valid during
// the call only.
// Errors: send() throws kInvalid for a frame beyond the limit. A frame that arrives and breaks the
// format or the limit ends the stream (nothing is allocated for it); so do errors thrown by
// on_frame. closed() then carries the reason: kUnavailable when the peer went away or reads
// nothing, kInvalid for bad bytes.
// Cost: about 1 us a frame in a batch; one allocation to build one.
//
// Example:
//   FrameStream frames(reactor, std::move(stream), {.name = "executor 3"});
//   frames.start([&](capnp::MessageReader& message) { handle(message.getRoot<ToHost>()); });
//   frames.send(make_frame(builder));
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/future.h"
#include "runtime/net/frame.h"
#include "runtime/net/transport.h"
#include "runtime/observe/metrics.h"

namespace gangway {

Frame make_frame(capnp::MessageBuilder& message);

struct FrameOptions {
  std::string name = "peer";            // Who is at the other end, for errors.
  size_t frame_bytes_max = 64u << 20;   // A larger one, either way, is refused.
  size_t queued_bytes_max = 32u << 20;  // A peer for which more wait is stuck, and given up.
};

// What streams with the same labels sent and received, as metrics: gangway_frames_sent_total ...
struct FrameCounts {
  FrameCounts(Metrics& metrics, const MetricLabels& labels);
  Counter &frames_sent, &bytes_sent, &writes;
  Counter &frames_received, &bytes_received, &reads;
};

class FrameStream {
 public:
  FrameStream(Reactor& reactor, Stream stream, FrameOptions options = {});
  // Drops what is still queued (see flush()) and closes the stream. Suspends.
  ~FrameStream();

  // Begins to receive; once.
  void start(std::function<void(capnp::MessageReader&)> on_frame);
  // Queues a frame; ends the stream where more than queued_bytes_max wait already. Once it has
  // ended, frames are dropped.
  void send(Frame frame);
  // Suspends until all that was queued has been handed to the system.
  void flush();
  // Ends the stream from this side; closed() becomes ready without an error.
  void close();
  // Ready when the stream has ended, with the reason as its error.
  Future<void> closed() const { return closed_.future(); }

  // Counts there from now on, and no more in metrics of its own. They outlive the stream.
  void count_in(Metrics& metrics, const MetricLabels& labels) { counts_.emplace(metrics, labels); }
  const FrameCounts& counts() const { return *counts_; }

 private:
  struct Input;
  void write_loop();
  void read_loop();
  void read_some(Input& input);
  bool deliver_one(Input& input);
  void end(Result<void> reason);

  FrameOptions options_;
  Stream stream_;
  std::function<void(capnp::MessageReader&)> on_frame_;
  std::deque<Frame> queue_;
  size_t queued_bytes_ = 0;
  WaitQueue queued_, drained_;
  Metrics own_metrics_;
  std::optional<FrameCounts> counts_;
  Promise<void> closed_;
  FiberGroup fibers_;
};

}  // namespace gangway
