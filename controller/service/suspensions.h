// Suspensions: programs that leave their devices for a while, so that others have the memory.
//
//   suspend: no run begins -> those under way end -> hosts move its states to their own memory ->
//            what it had reserved on devices is given back
//   resume:  the same is reserved again, or refused with who holds what -> hosts move the states
//            back -> what waits goes on, in its order
//
// A program here is all that one client runs. While it is suspended its runs wait, as do reads and
// writes of its states, by its own client and by others, and programs that its client compiles.
// Arrays stay where they are, with a reservation of their own, and can be put, got and freed.
// Slices stay the program's, so nobody else gets devices that it has to itself. States on a lost
// host are lost and fail, as without a suspension.
//
// Threads: the reactor's thread; suspend(), resume() and wait_to_compile() suspend.
// Errors: if a host refuses, other hosts undo their part and all of the program is as before. If
// one can't undo it, the program is suspended, keeps its reservations on devices, and may be
// resumed later. kUnavailable if its session was closed meanwhile.
// Cost: O(plans + states) of the program; nothing for a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/copies/copies.h"
#include "controller/scheduler/runs.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"
#include "runtime/observe/metrics.h"

namespace gangway {

class Suspensions {
 public:
  struct Tables {
    HostTable& hosts;
    SliceTable& slices;
    ObjectTable& objects;
    PlanTable& plans;
    RunTable& runs;
    CopyTable& copies;
    Metrics& metrics;
  };
  struct Clients {
    std::function<std::string(SessionId)> holder_name;
    std::function<bool(SessionId)> is_open;
  };
  Suspensions(Tables tables, Clients clients) : tables_(tables), clients_(std::move(clients)) {}

  // Returns how many bytes of its states lie in host memory then. Does nothing to a program that is
  // suspended. `asker` ends only the wait for another suspend() or resume() of the program.
  int64_t suspend(SessionId program, const StopToken& asker = {});
  // Does nothing to a program that is not suspended.
  void resume(SessionId program, const StopToken& asker = {});
  // True from the request to suspend the program until it has been resumed.
  bool is_suspended(SessionId program) const { return programs_.contains(program); }
  int64_t host_bytes(SessionId program) const;

  // Waits until the program is not suspended. The caller holds the result while it installs what
  // the client compiles: suspend() waits until it is dropped.
  std::shared_ptr<void> wait_to_compile(SessionId program);
  // A run, a host transfer or a host has gone, so that suspend() may go on.
  void look_again();
  void session_closed(SessionId program);

 private:
  // The reservations that a plan had.
  struct PlanMemory {
    Reservations own;  // Null: nothing.
    std::vector<Reservation> overlaid;
  };
  struct Program {
    bool is_moving = true;
    bool keeps_devices = false;  // No reservation on devices was given back.
    bool is_counted = false;     // on_hosts_ includes `bytes`.
    std::map<PlanId, PlanMemory> plans;
    std::map<SliceId, std::vector<Reservations>> states;
    std::map<HostId, int64_t> bytes;  // Bytes of its states in the memory of each host.
  };
  // Reservations that a program gets anew while it is being resumed.
  struct Taken {
    std::shared_ptr<void> hosts;  // Keeps hosts, also lost ones, until the members below are gone.
    std::map<PlanId, std::shared_ptr<Holding>> plans;
    std::map<PlanId, std::shared_ptr<OverlaidHolding>> overlaid;
    std::map<SliceId, std::vector<std::shared_ptr<Holding>>> states;
  };
  using Requests = std::map<HostId, MoveRequest>;
  struct Moved {
    std::map<HostId, int64_t> bytes;  // Bytes that each host has moved; hosts that failed: none.
    std::optional<Error> failed;
  };

  Program* when_it_stands_still(SessionId id, const StopToken& asker);
  bool is_quiet(SessionId id) const;
  std::vector<PlanRecord*> plans_of(SessionId id) const;
  Requests requests_of(SessionId id, bool to_host) const;
  Moved ask_hosts(const Requests& requests);
  Moved undo(Requests requests, const Moved& moved);
  void stay(Program& program, const Moved& on_devices);
  void hand_out(SessionId id, Taken taken);
  Program& require_there(SessionId id, const char* what);
  void give_back(SessionId id, Program& program);
  Taken take(SessionId id, const Program& program);
  void require_room(SessionId id, const Program& program);
  Error no_room(const Shortage& short_of) const;
  void count(Program& program, int64_t sign);

  const Tables tables_;
  const Clients clients_;
  std::map<SessionId, Program> programs_;
  std::map<SessionId, int> compiling_;
  std::map<HostId, int64_t> on_hosts_;
  WaitQueue changed_;
};

}  // namespace gangway
