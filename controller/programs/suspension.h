// Suspension: lets a program leave its devices for a while, so that others have the memory.
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
// Threads: the reactor's thread; suspend(), resume() and wait_to_compile() suspend the calling
// fiber.
// Ownership: the program's (program.h), which closes it when it ends; its callers share it, since
// the program may end while they wait. The tables outlive it.
// Errors: if a host refuses, other hosts undo their part and all of the program is as before. If
// one can't undo it, the program is suspended, keeps its reservations on devices, and may be
// resumed later. kUnavailable if its session was closed meanwhile.
// Cost: O(plans + states) of the program; nothing for a run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/programs/shared_tables.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class Suspension : public std::enable_shared_from_this<Suspension> {
 public:
  // The part that the suspensions of all programs share.
  class Shared {
   public:
    explicit Shared(SharedTables& tables) : tables_(tables) {}
    Shared(const Shared&) = delete;
    // A run, a host transfer or a host has gone, so that suspend() may go on.
    void look_again() { changed_.wake_all(); }

   private:
    friend class Suspension;
    // Adds bytes of states that lie in the memory of this host.
    void count(HostId host, int64_t bytes);

    SharedTables& tables_;
    std::map<HostId, int64_t> on_hosts_;
    WaitQueue changed_;
  };
  // `holder`: the program's name in messages about memory.
  Suspension(SessionId program, std::string holder, Shared& shared)
      : program_(program), holder_(std::move(holder)), shared_(shared), tables_(shared.tables_) {}
  Suspension(const Suspension&) = delete;

  // Returns how many bytes of its states lie in host memory then. Does nothing to a program that is
  // suspended. `asker` ends only the wait for another suspend() or resume() of the program.
  int64_t suspend(const StopToken& asker = {});
  // Does nothing to a program that is not suspended.
  void resume(const StopToken& asker = {});
  // True from the request to suspend the program until it has been resumed, or has ended.
  bool is_suspended() const { return state_ != nullptr; }
  int64_t host_bytes() const;

  // Waits until the program is not suspended. The caller holds the result while it installs what
  // the client compiles: suspend() waits until it is dropped.
  std::shared_ptr<void> wait_to_compile();
  // The program has ended. Calls that wait end too.
  void close();

 private:
  // The reservations that a plan had.
  struct PlanMemory {
    Reservations own;  // Null: nothing.
    std::vector<Reservation> overlaid;
  };
  struct State {
    bool is_moving = true;
    bool keeps_devices = false;  // No reservation on devices was given back.
    bool is_counted = false;     // Shared::on_hosts_ includes `bytes`.
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

  State* when_it_stands_still(const StopToken& asker);
  bool is_quiet() const;
  std::vector<PlanRecord*> plans() const;
  Requests requests(bool to_host) const;
  Moved ask_hosts(const Requests& wanted);
  Moved undo(Requests wanted, const Moved& moved);
  void stay(const Moved& on_devices);
  void hand_out(Taken taken);
  State& require_there(const char* what);
  void give_back();
  Taken take() const;
  void require_room() const;
  Error no_room(const Shortage& short_of) const;
  void count(int64_t sign);
  void end();

  const SessionId program_;
  const std::string holder_;
  Shared& shared_;
  SharedTables& tables_;
  std::unique_ptr<State> state_;  // Null: it is not suspended.
  int compiling_ = 0;             // Number of results of wait_to_compile() that are held.
  bool is_closed_ = false;
};

}  // namespace gangway
