// What the controller can send to executors and clients, without any transport.
//
// service.cc implements these interfaces over RPC and frames; tests implement them with queues of
// promises that they answer, delay or fail.
//
// Threads: the reactor's thread. send() never suspends.
// Errors: send() throws for a frame beyond the stream's limit alone; a peer whose stream is gone is
// reported through Controller::host_lost() or session_closed().
// Ownership: the controller borrows a peer until then.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/resources/device_ref.h"
#include "protocol/checkpoint_files.h"
#include "protocol/frames.h"
#include "protocol/host_timeline.h"
#include "protocol/install.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/future.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

// An executor's part in checkpoints (protocol/checkpoint_files.h), as control.capnp has it.
class CheckpointPeer {
 public:
  struct Segment {
    uint64_t number = 0;
    SegmentDescriptor descriptor;
  };
  virtual ~CheckpointPeer() = default;
  virtual Future<Segment> make_segment(uint64_t bytes) = 0;
  virtual Future<void> write_checkpoint(uint64_t segment, const CheckpointFiles& files) = 0;
  // Which of the tensors that may be missing are.
  virtual Future<std::vector<std::string>> read_checkpoint(uint64_t segment,
                                                           const CheckpointFiles& files) = 0;
  virtual void close_segment(uint64_t segment) = 0;  // Nobody waits for it.
};

class ExecutorPeer {
 public:
  virtual ~ExecutorPeer() = default;
  virtual Future<Installed> install(PlanId plan, const std::vector<std::byte>& bytes, uint32_t self,
                                    StateScope scope, const PlanOwner& owner,
                                    const std::vector<SourceText>& texts) = 0;
  virtual Future<void> link(PlanId plan, const std::vector<LinkOffer>& offers) = 0;
  virtual Future<void> commit_install(PlanId plan) = 0;
  // The bytes of the states that lie in host memory then; as protocol/control.capnp says.
  virtual Future<int64_t> move_states(const MoveRequest& what) = 0;
  virtual void send(const Frame& frame) = 0;
  virtual CheckpointPeer* checkpoints() { return nullptr; }  // Null: it has no part in them.
  // What its devices did last, as protocol/control.capnp says. kInvalid: it keeps nothing of that.
  virtual Future<HostTimeline> timeline(uint32_t /*events_max*/) {
    return Future<HostTimeline>(
        Result<HostTimeline>(Error(ErrorKind::kInvalid, "timeline: this host keeps none")));
  }
  // Called when the host is declared lost: closes its connection, so that an executor that was only
  // suspended notices it when it resumes.
  virtual void hang_up() = 0;
};

class ClientPeer {
 public:
  virtual ~ClientPeer() = default;
  virtual void send(const Frame& frame) = 0;
};

}  // namespace gangway
