// The runs: from a client's request to the last host's completion.
//
//   submit -> admitted: memory reserved on all its hosts -> prepared: one frame, the same bytes for
//   each host -> granted, whole or section by section -> all are done -> the client is told
//
// RunTable leads a run through its life: it checks the run's arguments and outputs (arguments.h),
// waits for room (admission.h) behind the earlier runs of its scope, has its hosts prepare it,
// sends what the gang scheduler grants (gangs/gang_scheduler.h), and ends it once: when all hosts
// are done, one is lost, or it is stopped before it was prepared. A run that is asked to stop after
// that ends as its hosts report: they alone know whether the request came before its commit. Where
// a host refuses its part of a run the others would wait for it: their part of the plan is given
// up, with all its runs but those of which that host has done its part.
//
// A run whose time limit has passed ends for its client in any case. If it still waits for its turn
// on the devices, it ends at once, since it can't commit any more. If a host does not answer the
// cancellation for kAnswerMs, since a device of it is stuck, the client is told so. The run's
// reservations stay until that host answers, which is not reported to anyone, or is lost.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: submit() never throws: an error of a run is its result. A client is told the end of each
// of its runs exactly once.
// Cost: O(hosts + arguments) a run, and O(hosts) a frame of grants; nothing grows with shards.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/scheduler/admission.h"
#include "controller/scheduler/fast_path.h"
#include "controller/scheduler/gangs/gang_scheduler.h"
#include "controller/scheduler/run.h"
#include "runtime/fibers/clock.h"

namespace gangway {

class RunTable {
 public:
  struct Callbacks {
    // Names the run as its client does. `is_stopped`: it failed since it was cancelled itself, or
    // is past its time limit.
    std::function<void(SessionId, RunDoneFrame, bool is_stopped)> ended;
    // Gets a line for the user: a program has lost the fast path (fast_path.h).
    std::function<void(SessionId, const std::string&)> warn;
    // For scopes that are watched (watch_states()). at_sequence_point gets a place between two
    // runs, under the rules of GangScheduler's AtSequencePoint. watched_ended is called when a run
    // has ended, committed or not.
    std::function<void(const SequencePoint&)> at_sequence_point;
    std::function<void(const RunRecord&, bool committed)> watched_ended;
  };
  RunTable(const Clock& clock, HostTable& hosts, PlanTable& plans, ObjectTable& objects,
           const ProgramNames& names, Callbacks callbacks, std::unique_ptr<Policy> policy,
           std::shared_ptr<ChargeLog> charge_log = nullptr);

  // Its time limit begins at `since_ns`. `refused`: why the run may not go, whatever else is right
  // with it.
  void submit(SessionId session, RunFrame request, int64_t since_ns,
              const std::optional<Error>& refused = {});
  void cancel(SessionId session, RunId client_run, const Error& why);
  void host_done(HostId host, RunDoneFrame done);
  void progress(HostId host, const ProgressFrame& frame);
  void host_lost(HostId host, const Error& why);
  // Two hosts that stay do not reach each other's memory any more: the plans that need the link are
  // given up, with all their runs of which the two have not both done their part.
  void link_broken(HostId a, HostId b, const std::string& why);
  // Notes at which device a run is stuck. If the run fails in the end, its client is told that.
  void note_stuck(HostId host, const StuckDevice& stuck);
  void forget_stuck(HostId host, const StuckDevice& stuck);  // The device goes on.
  void session_closed(SessionId session);
  // Called when something was freed: admits and grants what can go now.
  void pump();
  // Calls `send` with a ticket between those of the runs that the session has submitted in this
  // scope so far and of its later ones. It must not call back.
  void in_order(SessionId session, StateScope scope, std::function<void(Ticket)> send);

  // The states of this scope are read for another program from now on, until unwatch_states(). The
  // place behind the runs that have their tickets is shown at once.
  void watch_states(SessionId session, StateScope scope);
  // The same, but shown at the next pump(): the version that is waited for has not come.
  void watch_states_again(SessionId session, StateScope scope) { gangs_.watch(session, scope.id); }
  void unwatch_states(SessionId session, StateScope scope) { gangs_.unwatch(session, scope.id); }
  // From now on no run of the session is prepared, and nothing takes a ticket in the order of its
  // scopes. Runs that are prepared go on to their end, with what comes before them. After
  // let_go_on() the runs that wait go on in their order.
  void hold(SessionId session);
  void let_go_on(SessionId session);
  bool is_held(SessionId session) const { return held_.contains(session); }
  // Runs of the scope that have their tickets and have not ended, without those that are known not
  // to commit. O(prepared runs of the scope), however many wait.
  std::set<RunId> may_commit(const ScopeRuns& scope) const;

  // Called when a plan was installed, when it goes, and when a program asks for a share.
  void plan_ready(const PlanRecord& plan);
  void plan_gone(PlanId plan);
  void set_share(SessionId session, const Share& share) { gangs_.set_share(session, share); }

  static constexpr int64_t kAnswerMs = 2000;
  // The next time limit; expire() ends the runs that are past theirs. `late_ns`: for so long the
  // controller stood still since the last look, which is no time in which a host did not answer.
  std::optional<int64_t> next_deadline_ns() const;
  void expire(int64_t now_ns, int64_t late_ns);

  size_t size() const { return runs_.size(); }  // Waiting or in flight.
  // Whether a run of this client's name is in the table and its client has not been told its end.
  bool knows(SessionId session, RunId client_run) const {
    return by_client_.contains({session, client_run});
  }
  struct Counts {
    uint64_t waiting = 0, in_flight = 0;
  };
  std::map<SessionId, Counts> counts() const;  // O(runs).
  // Part of the time of the devices that a session's plans may run on, over the last second.
  std::map<SessionId, double> used() const { return gangs_.used(clock_.now_ns()); }

 private:
  // Runs of one scope are admitted in the order of their submission.
  using ScopeKey = std::pair<SessionId, uint64_t>;
  static ScopeKey scope_of(const RunRecord& run) { return {run.session, run.plan->scope}; }

  RunId new_id();
  void take_times(HostId host, const std::vector<SectionTime>& times);
  void start(RunRecord& run, const std::optional<Error>& refused);
  void admit(const ScopeKey& scope);
  bool admit_first(RunRecord& run);
  bool lacks_argument(RunRecord& run);
  bool makers_are_prepared(RunRecord& run);
  void leave_waiting(const RunRecord& run);
  void admit_all();
  void prepare(RunRecord& run);
  void send_grants(std::vector<GrantRange> ranges);
  const std::vector<HostId>& hosts_of(const GrantRange& range) const;
  void send(const PlanRecord& plan, const Frame& frame);
  void ask_to_stop(RunRecord& run, const Error& why);
  void cancel_on_hosts(const RunRecord& run, const Error& why);
  void give_up_plan(const RunRecord& refused, HostId refusing, const Error& why);
  void give_up(PlanRecord& plan, const Error& why,
               const std::function<bool(const RunRecord&)>& is_hit);
  std::optional<GangScheduler::Wait> wait_of(const RunRecord& run) const;
  std::string text_of(const GangScheduler::Wait& wait) const;
  void set_time_limit(RunRecord& run, int64_t since_ns);
  void set_deadline(RunRecord& run, int64_t time_ns);
  void drop_deadline(RunRecord& run);
  void forgive_standstill(int64_t late_ns);
  void report_unanswered(RunRecord& run);
  static void break_chain(const RunRecord& run);
  void tell(RunRecord& run);
  void end(RunRecord& run);
  void count_commit(const RunRecord& run);
  void fail_outputs(const RunRecord& run);
  static void say_why(RunRecord& run);
  const Error* broken_chain(const RunRecord& run);
  RunRecord* find(SessionId session, RunId client_run);

  HostTable& hosts_;
  PlanTable& plans_;
  ObjectTable& objects_;
  const ProgramNames& names_;
  Callbacks callbacks_;
  const Clock& clock_;
  Admission admission_;
  FastPath fast_path_;
  GangScheduler gangs_;
  std::map<ScopeKey, std::set<RunId>> waiting_;
  std::set<ScopeKey> may_go_on_;                   // Scopes in which a run may be admitted now.
  std::map<RunId, std::set<ScopeKey>> waits_for_;  // Key: a maker that is not prepared.
  std::set<SessionId> held_;
  std::map<RunId, std::unique_ptr<RunRecord>> runs_;
  std::map<std::pair<SessionId, RunId>, RunId> by_client_;
  std::set<std::pair<int64_t, RunId>> deadlines_;
  uint64_t last_run_ = 0;
};

}  // namespace gangway
