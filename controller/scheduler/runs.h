// The runs: from a client's request to the last host's completion.
//
//   submit -> waits for tickets (policy) -> admitted: memory reserved on all its hosts -> granted:
//   one frame for each host, the same bytes -> every host is done -> the client is told
//
// The gang scheduler is here: one ticket sequence for the whole controller. A run takes a range of
// it whole, in one step that does not suspend, so the order in which two runs reach any two hosts
// is the same, and a node waits only on lower tickets.
//
// Back-pressure: at most Plan::runs_in_flight_max runs of a plan are granted; more wait here, in
// order. A run whose memory is not there waits as long as a run in flight may free some; otherwise
// it fails with kOverloaded, naming who holds what.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: submit() never throws: what is wrong with a run is its result. A run ends exactly once,
// in bounded time if its hosts answer, die or are reported stuck.
// Cost: O(hosts + arguments) a run; nothing grows with nodes or shards.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/lowering/plans.h"
#include "controller/scheduler/policy.h"

namespace gangway {

class RunTable {
 public:
  struct Callbacks {
    std::function<void(SessionId, RunDoneFrame)> ended;  // The run by the client's name.
    std::function<std::string(SessionId)> owner_name;    // "client \"trainer\"".
  };
  RunTable(HostTable& hosts, PlanTable& plans, ObjectTable& objects, Callbacks callbacks,
           std::unique_ptr<Policy> policy = std::make_unique<Fifo>());
  ~RunTable();

  void submit(SessionId session, RunFrame request, int64_t now_ns);
  void cancel(SessionId session, RunId client_run, const Error& why);
  void host_done(HostId host, RunDoneFrame done);
  void host_lost(HostId host, const Error& why);
  void session_closed(SessionId session);
  // Something was freed: grants what can go now.
  void pump();
  // Calls `send` between the runs that the session has submitted so far and its later ones: once
  // all of those have their tickets or have ended. `send` must not call back.
  void in_order(SessionId session, std::function<void()> send);

  // The next time limit, and the runs that are past theirs.
  std::optional<int64_t> next_deadline_ns() const;
  void expire(int64_t now_ns);

  size_t in_flight() const { return in_flight_; }
  size_t waiting() const { return runs_.size() - in_flight_; }
  uint64_t granted() const { return granted_; }
  Ticket next_ticket() const { return next_ticket_; }

 private:
  struct Run;
  void start(Run& run);
  void bind_arguments(Run& run);
  bool admit(Run& run);
  void grant(Run& run);
  void ask_to_stop(Run& run, const Error& why);
  void host_finished(Run& run, HostId host);
  void end(Run& run);
  Run* find(SessionId session, RunId client_run);
  void pass_fences();
  bool may_start(const Run& run) const;

  // Waits for the session's runs up to `last`; its later runs wait for it.
  struct Fence {
    SessionId session;
    RunId last;
    std::function<void()> send;
  };

  HostTable& hosts_;
  PlanTable& plans_;
  ObjectTable& objects_;
  Callbacks callbacks_;
  std::unique_ptr<Policy> policy_;
  std::map<RunId, std::unique_ptr<Run>> runs_;
  std::map<std::pair<SessionId, RunId>, RunId> by_client_;
  std::set<std::pair<int64_t, RunId>> deadlines_;
  std::deque<Fence> fences_;
  Ticket next_ticket_{1};
  uint64_t last_run_ = 0;
  uint64_t granted_ = 0;
  size_t in_flight_ = 0;
};

}  // namespace gangway
