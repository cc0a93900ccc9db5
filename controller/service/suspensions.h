// Suspensions: programs that leave their devices for a while, so that others have the memory.
//
//   suspend: no run begins -> those under way end -> hosts move its states to their own memory ->
//            what it had reserved on devices is given back
//   resume:  the same is reserved again, or refused with who holds what -> hosts move the states
//            back -> what waits goes on, in its order
//
// A program is what one client runs. Between the two its runs wait, and so do reads and writes of
// its states, by itself and by others, and programs that its client compiles. Arrays stay where
// they are, with a reservation of their own: they are put, got and freed as ever. Slices stay the
// program's, so devices that it has to itself are nobody else's. What a lost host held is lost, and
// fails as ever.
//
// Threads: the reactor's thread; suspend(), resume() and wait_to_compile() suspend.
// Errors: where a host refuses, all of the program is as before. Where what others have moved can't
// be moved back either, the program is suspended, keeps what it had reserved on devices, and may be
// resumed later. kUnavailable: its session was closed meanwhile.
// Cost: O(plans + states) of the program; a run costs nothing for it.
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

  // How many bytes of its states lie in host memory then. One that is suspended stays so.
  // `asker`: ends the wait for another suspend() or resume() of the program; one that has begun
  // goes on.
  int64_t suspend(SessionId program, const StopToken& asker = {});
  // One that is not suspended goes on as it does.
  void resume(SessionId program, const StopToken& asker = {});
  // From the request to suspend it until it has been resumed.
  bool is_suspended(SessionId program) const { return programs_.contains(program); }
  int64_t host_bytes(SessionId program) const;

  // What its client compiles is installed while the answer is held, and the program is not
  // suspended meanwhile.
  std::shared_ptr<void> wait_to_compile(SessionId program);
  // A run, a copy or a host has gone: what is waited for may have come.
  void look_again();
  void session_closed(SessionId program);

 private:
  // What a plan had reserved.
  struct PlanMemory {
    Reservations own;  // Null: nothing.
    std::vector<Reservation> overlaid;
  };
  struct Program {
    bool is_moving = true;
    bool keeps_devices = false;  // Nothing that it had reserved on devices was given back.
    bool is_counted = false;     // `bytes`, in what lies on each host.
    std::map<PlanId, PlanMemory> plans;
    std::map<SliceId, std::vector<Reservations>> states;
    std::map<HostId, int64_t> bytes;  // Of its states, in the memory of each host.
  };
  // What a resumed program has reserved again, until it has come back.
  struct Taken {
    std::shared_ptr<void> hosts;  // Which stay, also lost ones, until all that follows has gone.
    std::map<PlanId, std::shared_ptr<Holding>> plans;
    std::map<PlanId, std::shared_ptr<OverlaidHolding>> overlaid;
    std::map<SliceId, std::vector<std::shared_ptr<Holding>>> states;
  };
  using Requests = std::map<HostId, MoveRequest>;
  struct Moved {
    std::map<HostId, int64_t> bytes;  // Of the hosts that have moved theirs.
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
