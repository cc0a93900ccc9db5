// RunQueue: whose turn it is among the runs that wait, and the tickets that they take.
//
// One ticket sequence serves the whole controller. A run takes a range of it whole, in one step
// that does not suspend, so the order in which two runs reach any two hosts is the same, and a node
// waits only on lower tickets: nothing can deadlock, whatever order the policy chooses.
//
// What reads or writes state takes a ticket in its turn: after the runs that its session submitted
// before, and before its later ones (in_order()).
//
// Threads: the reactor's thread; nothing suspends.
// Cost: add() and take() O(log runs) and what the policy needs; next() looks at each run that may
// not go yet.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "controller/scheduler/policy.h"

namespace gangway {

class RunQueue {
 public:
  explicit RunQueue(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  void add(const Waiting& run);
  // The run whose turn it is among those that `has_room` lets go; none: nullopt. It stays.
  std::optional<RunId> next(const std::function<bool(RunId)>& has_room);
  // It goes: takes it out and gives it its tickets, one a position; the first of them.
  Ticket take(RunId run);
  // It ends without its turn; a run that is not here is ignored.
  void remove(RunId run);

  // Calls `send` with a ticket between those of the runs that the session has added so far and of
  // its later ones: once all of those have been taken or removed. `send` must not call back.
  void in_order(SessionId session, std::function<void(Ticket)> send);
  // What waits in in_order() is dropped.
  void session_closed(SessionId session);

  Ticket next_ticket() const { return next_ticket_; }

 private:
  // Waits for the session's runs up to `last`; its later runs wait for it.
  struct Fence {
    SessionId session;
    RunId last;
    std::function<void(Ticket)> send;
  };
  void pass_fences();
  bool is_fenced(RunId run) const;

  std::unique_ptr<Policy> policy_;
  std::map<RunId, Waiting> waiting_;
  std::map<SessionId, std::set<RunId>> by_session_;  // Of those that wait.
  std::deque<Fence> fences_;
  RunId last_;
  Ticket next_ticket_{1};
};

}  // namespace gangway
