// Interfaces through which the controller calls executors and clients, without any transport.
//
// service.cc implements these interfaces over RPC and frames; tests implement them with queues of
// promises that they answer, delay or fail.
//
// Threads: the reactor's thread. send() never suspends.
// Errors: send() throws only for a frame beyond the stream's limit; a peer whose stream is gone is
// reported through Controller::host_lost() or session_closed().
// Ownership: the controller borrows a peer until then.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/hosts/device_ref.h"
#include "protocol/checkpoint_files.h"
#include "protocol/frames.h"
#include "protocol/host_timeline.h"
#include "protocol/install.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/future.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

// An executor's part in checkpoints (protocol/checkpoint_files.h); control.capnp has the calls.
class CheckpointPeer {
 public:
  struct Segment {
    uint64_t number = 0;
    SegmentDescriptor descriptor;
  };
  virtual ~CheckpointPeer() = default;
  virtual Future<Segment> make_segment(uint64_t bytes) = 0;
  virtual Future<void> write_checkpoint(uint64_t segment, const CheckpointFiles& files) = 0;
  // Returns the tensors that are missing, of those that may be.
  virtual Future<std::vector<std::string>> read_checkpoint(uint64_t segment,
                                                           const CheckpointFiles& files) = 0;
  virtual void close_segment(uint64_t segment) = 0;  // Returns before the segment is closed.
};

class ExecutorPeer {
 public:
  virtual ~ExecutorPeer() = default;
  virtual Future<Installed> install(PlanId plan, const std::vector<std::byte>& bytes, uint32_t self,
                                    StateScope scope, const PlanOwner& owner,
                                    const std::vector<SourceText>& texts) = 0;
  virtual Future<void> link(PlanId plan, const std::vector<LinkOffer>& offers) = 0;
  virtual Future<void> commit_install(PlanId plan) = 0;
  // Returns the bytes of the states that lie in host memory then: see protocol/control.capnp.
  virtual Future<int64_t> move_states(const MoveRequest& what) = 0;
  virtual void send(const Frame& frame) = 0;
  virtual CheckpointPeer* checkpoints() { return nullptr; }  // Null: it takes no part in them.
  // The last events of its devices: see protocol/control.capnp. kInvalid if it keeps none.
  virtual Future<HostTimeline> timeline(uint32_t /*events_max*/) {
    return Future<HostTimeline>(
        Result<HostTimeline>(Error(ErrorKind::kInvalid, "timeline: this host keeps none")));
  }
  // Called when the host is declared lost. Closes its connection, so that an executor whose process
  // was only stopped notices the loss when it continues.
  virtual void hang_up() = 0;
};

class ClientPeer {
 public:
  virtual ~ClientPeer() = default;
  virtual void send(const Frame& frame) = 0;
};

}  // namespace gangway
