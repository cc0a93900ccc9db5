// The controller's peers over RPC and frames.
//
// Threads: the reactor's thread.
// Ownership: shared by the capability that stands for the peer and by fibers that use its stream.
// Errors: the failure of a stream is reported once, through on_closed, in a fiber of its own: never
// inside a call of the stream.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/hosts/peers.h"
#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/net/frames.h"

namespace gangway {

// A peer's frame stream: frames wait in it until the peer connects, and while its connection is
// lost.
class PeerStream : public std::enable_shared_from_this<PeerStream> {
 public:
  PeerStream(Reactor& reactor, FrameOptions options);

  std::string owner;  // The only user that may connect to it.
  std::function<void(Message)> on_message;
  std::function<void(const Error&)> on_closed;  // Null: the end is not reported.

  // Begins to receive. Called once.
  void start();
  // The stream that the peer's connections feed. Null once it is closed.
  FrameStream* frames() const { return frames_.get(); }
  void send(const Frame& frame);
  // Closes the stream from this side, so that the peer sees its end.
  void hang_up();
  // Suspends.
  void close();

 private:
  std::unique_ptr<FrameStream> frames_;
  bool closed_ = false;
};

class ExecutorRpc final : public ExecutorPeer, public CheckpointPeer {
 public:
  ExecutorRpc(Reactor& reactor, wire::Executor::Client executor, FrameOptions frames)
      : reactor_(reactor),
        executor_(kj::mv(executor)),
        stream_(std::make_shared<PeerStream>(reactor, std::move(frames))) {}

  ~ExecutorRpc() noexcept override {}  // A capability may throw when it is dropped: end there.

  Future<Installed> install(PlanId plan, const std::vector<std::byte>& bytes, uint32_t self,
                            StateScope scope, const PlanOwner& owner,
                            const std::vector<SourceText>& texts) override;
  Future<void> link(PlanId plan, const std::vector<LinkOffer>& offers) override;
  Future<void> commit_install(PlanId plan) override;
  Future<int64_t> move_states(const MoveRequest& what) override;
  CheckpointPeer* checkpoints() override { return this; }
  Future<Segment> make_segment(uint64_t bytes) override;
  Future<void> write_checkpoint(uint64_t segment, const CheckpointFiles& files) override;
  Future<std::vector<std::string>> read_checkpoint(uint64_t segment,
                                                   const CheckpointFiles& files) override;
  void close_segment(uint64_t segment) override;
  Future<HostTimeline> timeline(uint32_t events_max) override;
  void send(const Frame& frame) override { stream_->send(frame); }
  void hang_up() override { stream_->hang_up(); }

  const std::shared_ptr<PeerStream>& stream() const { return stream_; }

 private:
  Reactor& reactor_;
  wire::Executor::Client executor_;
  std::shared_ptr<PeerStream> stream_;
};

class ClientRpc final : public ClientPeer {
 public:
  ClientRpc(Reactor& reactor, FrameOptions frames)
      : stream_(std::make_shared<PeerStream>(reactor, std::move(frames))) {}
  void send(const Frame& frame) override { stream_->send(frame); }
  const std::shared_ptr<PeerStream>& stream() const { return stream_; }

 private:
  std::shared_ptr<PeerStream> stream_;
};

}  // namespace gangway
