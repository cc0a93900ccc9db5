// The puts and gets under way: bytes between a client's segment and the hosts that hold an array or
// state.
//
// The controller never touches the bytes: it names the hosts, and tells the client when all are
// done. A host that is lost before it has reported that may only have been stopped, and go on
// later. Then the transfer ends as one that is not settled, and its memory is never used again
// (runtime/os/landing_log.h).
//
// Order: start() sends at once. A read or write of states comes here in its turn among the runs
// (RunTable::in_order()); the hosts' streams keep that order.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: start() never throws; an error is the transfer's result. A transfer ends exactly once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "controller/plans/plans.h"
#include "runtime/os/landing_log.h"

namespace gangway {

class HostTransfers {
 public:
  // A client's transfer has ended.
  using Ended = std::function<void(SessionId, HostTransferKind, HostTransferDoneFrame)>;
  // `landings`: null if nobody looks at them.
  HostTransfers(HostTable& hosts, PlanTable& plans, SliceTable& slices, ObjectTable& objects,
                const ProgramNames& names, Ended ended,
                std::shared_ptr<LandingLog> landings = nullptr)
      : hosts_(hosts),
        plans_(plans),
        slices_(slices),
        objects_(objects),
        names_(names),
        ended_(std::move(ended)),
        landings_(std::move(landings)) {}

  void start(SessionId session, HostTransferFrame request);
  // Gets or puts a state of a slice, which may be another session's that `session` may read. `done`
  // is told the end, perhaps before this returns. `tenant`: the transfer to which the memory
  // belongs now (LandingLog); transfers of one tenant into the same memory are of the same hosts,
  // in the order of their tickets.
  using Done = std::function<void(const HostTransferDoneFrame&)>;
  uint64_t new_tenant() { return ++last_; }
  void transfer_for(SessionId session, const SliceRecord& scope, HostTransferFrame request,
                    uint64_t tenant, Done done);
  void host_done(HostId host, const HostTransferDoneFrame& done);
  void host_lost(HostId host, const Error& why);
  void session_closed(SessionId session);
  size_t under_way() const { return transfers_.size(); }
  // Whether states of this slice's scope are read or written now. O(transfers).
  bool any_of_states(SliceId slice) const;

 private:
  struct HostTransfer {
    SessionId session;
    HostTransferKind kind = HostTransferKind::kGet;
    uint64_t client_request = 0;
    uint64_t tenant = 0;  // 0: its own.
    std::set<HostId> pending;
    bool is_settled = true;  // No host was lost before it reported that it is done.
    std::optional<Error> error;
    std::optional<ArrayId> kept;    // An array that it reads or writes.
    std::optional<SliceId> states;  // Slice in whose scope its state is named.
    Done done;                      // Told of the end; none: the client is.
  };
  std::vector<HostId> hosts_for(SessionId session, HostTransferFrame& request);
  void send(HostTransfer transfer, HostTransferFrame request);
  std::vector<HostId> create_array(SessionId session, HostTransferFrame& request);
  void host_finished(uint64_t id, HostId host);

  HostTable& hosts_;
  PlanTable& plans_;
  SliceTable& slices_;
  ObjectTable& objects_;
  const ProgramNames& names_;
  const Ended ended_;
  const std::shared_ptr<LandingLog> landings_;
  std::map<uint64_t, HostTransfer> transfers_;
  uint64_t last_ = 0;
};

}  // namespace gangway
