// Objects behind the handles of client.h, and the chains of runs that they share.
//
// Each lives as long as its last handle; its destructor has the session free the remote part.
//
// Threads: any, or a fiber of the client's reactor. The session's notify.mutex, or a lock of its
// own, guards each member that changes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/session.h"

namespace gangway::internal {

struct Chain;
struct Outcome;
struct UpdatedStates;

class SliceImpl {
 public:
  SliceImpl(std::shared_ptr<Session> owner, uint64_t slice, const SliceShape& shape)
      : session(std::move(owner)),
        id(slice),
        devices(shape.devices),
        ranks_per_device(shape.ranks_per_device) {}
  // A slice of a program that was attached to: it is not freed with its handle.
  SliceImpl(std::shared_ptr<Session> owner, const HeldSlice& slice)
      : session(std::move(owner)),
        id(slice.id),
        devices(slice.devices),
        ranks_per_device(slice.ranks_per_device),
        is_held(true) {}
  ~SliceImpl();

  std::shared_ptr<Session> session;
  uint64_t id;
  int64_t devices;
  int64_t ranks_per_device;
  const bool is_held = false;
  std::mutex mutex;
  struct State {
    Type type;
    std::optional<StackedLayers> stacked;
    Hash128 begins;  // values_hash() of its initialiser.
  };
  std::map<std::string, State> states;  // States of all programs compiled on the slice.
  // Returns the states that were there already and would have begun otherwise in this program.
  std::vector<std::string> note_states(const CompiledPlan& plan, const Program& program);
  // Chains of runs that update the slice's states. Guarded by the session's notify.mutex.
  std::vector<std::shared_ptr<Chain>> chains;
};

// The runs of one executable, each of which commits only if the one before it did. Once the user
// has been told of a run that did not, the next run begins a new chain. Guarded by the session's
// notify.mutex.
struct Chain {
  Chain() = default;
  Chain(const Chain&) = delete;
  ~Chain();

  RunId last;
  // The user was told of the run that failed, and the next run begins a new chain.
  bool told = false;
  // States that the runs update (failed_runs.h); null: none.
  std::shared_ptr<const UpdatedStates> updates;
  std::weak_ptr<Outcome> last_run;
  // The first run that is known to have failed, and its error.
  std::optional<Error> failed;
  RunId failed_run;
};

// How a run ended. Guarded by the session's notify.mutex. It holds no handle, since the reactor
// holds it.
struct Outcome : std::enable_shared_from_this<Outcome> {
  bool done = false;
  std::optional<Error> error;
  std::shared_ptr<Chain> chain;
  RunId run;
  std::map<uint32_t, std::vector<std::byte>> small;  // Outputs that came with the end.
};

// Waits for the end of a run, and throws its error.
void wait_for(Notify& notify, Outcome& outcome);
// Whether the run has ended. Waits for nothing.
bool is_done(Notify& notify, Outcome& outcome);

class RunImpl {
 public:
  std::shared_ptr<ExecutableImpl> executable;
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
  std::vector<std::shared_ptr<ArrayImpl>> outputs;
};

// Copy of a host tensor on the devices, for one input of a plan.
struct PlacedCopy {
  ArrayId id;
  std::optional<Error> failed;  // Guarded by the session's notify.mutex.
};

// A result of a run, or a tensor that the client holds and places where a run wants it.
class ArrayImpl {
 public:
  ~ArrayImpl();
  struct Placed {
    std::shared_ptr<PlacedCopy> copy;
    bool is_new = false;
  };
  // Returns the copy for this input of this plan. Puts it there at first, and after a failed try.
  Placed place(PlanId plan, uint32_t input);
  // Frees what was copied for this plan, which is going away.
  void release_placed(PlanId plan);

  std::shared_ptr<Session> session;
  Type type;
  // Fields of a result.
  ArrayId id;
  uint32_t output = 0;
  std::shared_ptr<Outcome> outcome;
  // Fields of a host tensor.
  std::optional<HostTensor> tensor;
  std::mutex mutex;
  std::map<std::pair<PlanId, uint32_t>, std::shared_ptr<PlacedCopy>> placed;  // Guarded by `mutex`.

 private:
  // Null if there is none, or if it failed.
  std::shared_ptr<PlacedCopy> placed_copy(PlanId plan, uint32_t input) const;
};

class ExecutableImpl {
 public:
  ~ExecutableImpl();
  std::shared_ptr<Session> session;
  std::vector<std::shared_ptr<SliceImpl>> slices;
  Program program;
  CompiledPlan plan;
  int64_t runs_in_flight_max = 1;
  bool is_held = false;  // Like SliceImpl::is_held.
  // Guarded by session->notify.mutex.
  std::shared_ptr<int64_t> in_flight = std::make_shared<int64_t>(0);
  std::shared_ptr<Chain> chain = std::make_shared<Chain>();
  std::shared_ptr<const UpdatedStates> updated;  // States that its runs update; null: none.
  // Notes that `run` is enqueued now. Returns the run that must commit before it does.
  RunId next_in_chain(RunId run, Outcome& outcome);
  // Held while runs are named and posted, so that both have one order. Its holder never suspends.
  std::mutex enqueueing;
  // Notes a host tensor with copies for its plan. The copies go with the plan.
  void note_placed(const std::shared_ptr<ArrayImpl>& array);
  void release_placed();
  std::vector<std::weak_ptr<ArrayImpl>> placed;  // Guarded by session->notify.mutex.
  std::atomic<uint64_t> position{0};
};

}  // namespace gangway::internal
