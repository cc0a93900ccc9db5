// Objects behind the public handles of client.h.
//
// Each object lives as long as its last handle; its destructor asks the reactor, by mail, to free
// the remote part. User threads and the reactor share `Notify`, the mailbox, and objects with locks
// of their own (RunDesk, Reports, LogLines, SegmentHeap).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/cluster.h"
#include "client/log_lines.h"
#include "client/notify.h"
#include "client/reports.h"
#include "client/segment_heap.h"
#include "client/session.h"
#include "client/timeline.h"
#include "runtime/fibers/ask.h"
#include "runtime/fibers/background.h"

namespace gangway::internal {

// Address space of a segment for puts and gets under way; pages never touched cost nothing.
inline constexpr int64_t kSegmentBytes = int64_t{64} << 30;

class SliceImpl;
class ExecutableImpl;

class ClientImpl : public std::enable_shared_from_this<ClientImpl> {
 public:
  using MakeCluster = std::function<std::unique_ptr<Cluster>(Reactor&)>;
  enum class Joins : uint8_t { kAsNew, kDetached };
  // Has a reactor thread of its own.
  ClientImpl(const MakeCluster& make, const ConnectOptions& options, Joins joins = Joins::kAsNew);
  // Runs on the caller's reactor (simulations).
  ClientImpl(Reactor& reactor, Network& network, const std::string& address,
             const ConnectOptions& options, Joins joins = Joins::kAsNew);
  ~ClientImpl();

  void close();
  void detach();
  // Handles to what the program holds that was attached to; the same ones while any lives.
  std::vector<std::shared_ptr<SliceImpl>> held_slices();
  std::shared_ptr<ExecutableImpl> held_executable(const std::string& name);
  HeldByProgram holdings();
  bool has_chosen_name() const { return has_chosen_name_; }
  const std::string& address() const { return address_; }
  bool stop_requested() {
    looks_for_stops_ = true;
    return stop_requested_;
  }
  // Runs body on the reactor, in a fiber, and waits for it.
  template <class Body>
  auto call(const char* what, Body body) {
    if (notify.is_at_home()) return body();
    return thread_->ask(what, std::move(body));
  }
  // Runs body on the reactor, soon. Once the client is closed it gets a session that is closed.
  void post(std::function<void(Session&)> body);
  // send_run() sends a run and let_go() releases an array: on this thread where that can be, else
  // on the reactor. Both come after what this thread has posted. A run that is not the only one in
  // flight goes by the reactor, which sends and receives several at once.
  void send_run(RunFrame frame, RunDone done, bool is_only_one);
  void let_go(ArrayId array);
  void report(Reported numbers);
  void log(const std::string& text);
  Session& session() { return *session_; }
  const std::string& name() const { return name_; }
  bool is_open() const { return !closed_; }
  void require_open() const {
    if (closed_) throw Session::closed_error();
  }

  ArrayId new_array() { return ArrayId(base_ + ++names_); }
  RunId new_run() { return RunId(base_ + ++names_); }
  // Returns the first of `count` names that follow one another.
  uint64_t new_names(uint64_t count) { return base_ + names_.fetch_add(count) + 1; }
  uint64_t new_reading() { return ++names_; }  // Number for Session::read_states().
  SegmentHeap& heap();
  using PartPtr = std::shared_ptr<SegmentHeap::Part>;
  // get() and put() move bytes between the cluster and a part of the heap, and wait. get() asks
  // again with another part where the program is brought back meanwhile.
  PartPtr get(const CopyFrame& frame, int64_t bytes);
  void put(const CopyFrame& frame, const PartPtr& part);
  // Waits until one more copy may be under way, and takes its place. The caller gives it back with
  // give_back_copy_place(), or post_copy() does when the copy has ended.
  void take_copy_place();
  void give_back_copy_place();
  // Uses a place that was taken. `done` is called on the reactor, with notify.mutex held. Hosts may
  // read and write the bytes of the part until all of them have reported that they are done, also
  // after `done` was called.
  void post_copy(CopyFrame frame, PartPtr part, Session::CopyDone done);
  // Frees memory (null: none) on a thread of its own, since that takes the system long. Called on
  // the reactor.
  void free_on_thread(PartPtr part);

  Notify notify;
  // Number of runs that were submitted and have not ended, and the most that the controller allows.
  // Guarded by notify.mutex.
  std::shared_ptr<int64_t> in_flight = std::make_shared<int64_t>(0);
  int64_t run_credits = 0;
  // Number of chains with a failed run of which the user is still to be told (failed_runs.h).
  const std::shared_ptr<std::atomic<int64_t>> untold_chains =
      std::make_shared<std::atomic<int64_t>>(0);

 private:
  bool may_pass_reactor() const;
  CopyDoneFrame copy(const CopyFrame& frame, const PartPtr& part);

  int64_t copies_under_way_ = 0, copy_credits_ = 0;  // The same for copies.
  void end();                                        // Called on the reactor.
  void open(Network& network, const std::string& address, const ConnectOptions& options,
            Joins joins);
  void end_cluster();
  std::shared_ptr<SliceImpl> held_slice(const HeldSlice& held);  // With held_mutex_ held.

  std::unique_ptr<Timeline> timeline_;  // For the reactor's thread alone, as the next four.
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Session> session_;  // Kept when it is closed.
  std::unique_ptr<Background> freeing_;
  bool has_ended_ = false;  // The cluster has ended, and freeing_ with it.
  uint64_t base_ = 0;
  std::string name_, address_;
  bool has_chosen_name_ = false, is_attached_ = false, is_local_ = false;
  std::mutex held_mutex_;  // Guards the next two, handles of what was attached to.
  std::map<uint64_t, std::weak_ptr<SliceImpl>> held_slices_;
  std::map<PlanId, std::weak_ptr<ExecutableImpl>> held_executables_;
  std::shared_ptr<RunDesk> desk_;
  const std::shared_ptr<Reports> reports_ = std::make_shared<Reports>();
  const std::shared_ptr<LogLines> lines_ = std::make_shared<LogLines>();
  std::atomic<uint64_t> names_{0};
  std::atomic<uint64_t> posted_{0};  // Bodies that the reactor has not run yet.
  std::mutex heap_mutex_;
  std::shared_ptr<SegmentHeap> heap_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> looks_for_stops_{false};  // The user has called stop_requested() once.
  std::unique_ptr<ReactorThread> thread_;
};

struct Chain;
struct Outcome;
struct UpdatedStates;

class SliceImpl {
 public:
  SliceImpl(std::shared_ptr<ClientImpl> owner, uint64_t slice, const SliceShape& shape)
      : client(std::move(owner)),
        id(slice),
        devices(shape.devices),
        ranks_per_device(shape.ranks_per_device) {}
  // A slice of a program that was attached to: it is not freed with its handle.
  SliceImpl(std::shared_ptr<ClientImpl> owner, const HeldSlice& slice)
      : client(std::move(owner)),
        id(slice.id),
        devices(slice.devices),
        ranks_per_device(slice.ranks_per_device),
        is_held(true) {}
  ~SliceImpl();

  std::shared_ptr<ClientImpl> client;
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
  // Chains of runs that update the slice's states. Guarded by the client's notify.mutex.
  std::vector<std::shared_ptr<Chain>> chains;
};

// The runs of one executable, each of which commits only if the one before it did. Once the user
// has been told of a run that did not, the next run begins a new chain. Guarded by the client's
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

// How a run ended. Guarded by the client's notify.mutex. It holds no handle, since the reactor
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
  std::shared_ptr<ClientImpl> client;
  std::shared_ptr<ExecutableImpl> executable;
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
  std::vector<std::shared_ptr<ArrayImpl>> outputs;
};

// Copy of a host tensor on the devices, for one input of a plan.
struct PlacedCopy {
  ArrayId id;
  std::optional<Error> failed;  // Guarded by the client's notify.mutex.
};

// A result of a run, or a tensor that the client holds and places where a run wants it.
class ArrayImpl {
 public:
  ~ArrayImpl();
  bool ready() const;
  HostTensor to_host() const;
  struct Placed {
    std::shared_ptr<PlacedCopy> copy;
    bool is_new = false;
  };
  // Returns the copy for this input of this plan. Puts it there at first, and after a failed try.
  Placed place(PlanId plan, uint32_t input);
  // Frees what was copied for this plan, which is going away.
  void let_go_placed(PlanId plan);

  std::shared_ptr<ClientImpl> client;
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
  std::shared_ptr<ClientImpl> client;
  std::vector<std::shared_ptr<SliceImpl>> slices;
  Program program;
  CompiledPlan plan;
  int64_t runs_in_flight_max = 1;
  bool is_held = false;  // Like SliceImpl::is_held.
  // Guarded by client->notify.mutex.
  std::shared_ptr<int64_t> in_flight = std::make_shared<int64_t>(0);
  std::shared_ptr<Chain> chain = std::make_shared<Chain>();
  std::shared_ptr<const UpdatedStates> updated;  // States that its runs update; null: none.
  // Notes that `run` is enqueued now. Returns the run that must commit before it does.
  RunId next_in_chain(RunId run, Outcome& outcome);
  // Held while runs are named and posted, so that both have one order. Its holder never suspends.
  std::mutex enqueueing;
  // Notes a host tensor with copies for its plan. The copies go with the plan.
  void note_placed(const std::shared_ptr<ArrayImpl>& array);
  void let_go_placed();
  std::vector<std::weak_ptr<ArrayImpl>> placed;  // Guarded by client->notify.mutex.
  std::atomic<uint64_t> position{0};
};

// A client on a reactor that already runs, as the simulator uses it.
Client connect_on(Reactor& reactor, Network& network, const std::string& address,
                  const ConnectOptions& options = {});
Client attach_on(Reactor& reactor, Network& network, const std::string& address,
                 const ConnectOptions& options);

}  // namespace gangway::internal
