// The puts and gets under way: bytes between a client's segment and the hosts that hold an array or
// state.
//
// The controller never touches the bytes: it names the hosts, and tells the client when all are
// done.
//
// Order: start() sends at once. What reads or writes state comes here in its turn among the runs
// (RunTable::in_order()); the hosts' streams keep it.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: start() never throws; what is wrong is the copy's result. A copy ends exactly once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "controller/lowering/plans.h"

namespace gangway {

class CopyTable {
 public:
  struct Callbacks {
    std::function<void(SessionId, CopyDoneFrame)> ended;
    std::function<std::string(SessionId)> holder_name;
  };
  CopyTable(HostTable& hosts, PlanTable& plans, SliceTable& slices, ObjectTable& objects,
            Callbacks callbacks)
      : hosts_(hosts),
        plans_(plans),
        slices_(slices),
        objects_(objects),
        callbacks_(std::move(callbacks)) {}

  void start(SessionId session, CopyFrame request);
  // Gets or puts a state of a slice, which may be another's that `session` may read; whoever asks
  // is told the end. It may come before this returns.
  using Done = std::function<void(const std::optional<Error>&)>;
  void copy_for(SessionId session, const SliceRecord& scope, CopyFrame request, Done done);
  void host_done(HostId host, const CopyDoneFrame& done);
  void host_lost(HostId host, const Error& why);
  void session_closed(SessionId session);
  size_t under_way() const { return copies_.size(); }
  // Whether states that are named in this slice are read or written now. O(copies).
  bool any_of_states(SliceId slice) const;

 private:
  struct Copy {
    SessionId session;
    uint64_t client_request = 0;
    std::set<HostId> pending;
    std::optional<Error> error;
    std::optional<ArrayId> kept;    // An array that it reads or writes.
    std::optional<SliceId> states;  // In which the state is named that it reads or writes.
    Done done;                      // Who is told; none: the client.
  };
  std::vector<HostId> hosts_for(SessionId session, const CopyFrame& request);
  void send(Copy copy, CopyFrame request);
  std::vector<HostId> make_array(SessionId session, const CopyFrame& request);
  void host_finished(uint64_t id, HostId host);

  HostTable& hosts_;
  PlanTable& plans_;
  SliceTable& slices_;
  ObjectTable& objects_;
  Callbacks callbacks_;
  std::map<uint64_t, Copy> copies_;
  uint64_t last_ = 0;
};

}  // namespace gangway
