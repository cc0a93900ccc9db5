// GangScheduler: decides which positions of which runs are granted next, and gives them tickets, in
// one sequence.
//
// A run's part on one slice is a *gang*: it goes on all its devices at once, position by position
// (ir/plan/positions.h). Granted positions have one controller-wide order, and a position is
// granted only when all that it waits on has lower tickets: a receive after its send; the gate,
// with one ticket for all slices, once every slice has come to it. The lowest ticket that has not
// ended can therefore always go on, and nothing deadlocks, whatever the policy answers.
//
// Runs of one state scope are granted in the order in which they were submitted, each whole before
// the next begins. A read or write of a state takes its ticket in that order (in_order()), and a
// read for another program takes one anywhere between two runs (watch()).
//
// Sequential dispatch (ir/plan/dispatch.h): a node, with its receives and sends, is granted only
// when hosts have reported the end of all nodes before it in its slice, and of the sends to it. A
// run begins when the earlier runs of its scope have ended.
//
// Ahead of time: where a program is alone on its devices, its runs are granted whole as soon as
// they are prepared. Where others may run too, grants reach one *quantum* of device time ahead, and
// are topped up at half of it, in turns of a quarter of it at most: the policy chooses the
// programs. Two turns are ahead however long they are, so that devices need not wait for the
// controller. The quantum is 2 ms, or 20 times what a grant costs the controller. A section that
// was never measured has a turn of its own, and its plan waits for its end before the next (until
// some sections were measured, which show how far the model is off for the others:
// section_times.h).
//
// Charges: a turn is charged by its expected time, and the difference to the measured time when its
// end is reported. Each position is charged once.
//
// Threads: the reactor's thread; nothing suspends. Only pump() grants, and the caller calls it
// after each report or change.
// Errors: progress() throws kInvalid for positions that were not granted.
// Cost: O(log programs) a turn for each of the gang's groups and slices; a run that is granted
// whole is one range.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "controller/scheduler/gangs/charge_log.h"
#include "controller/scheduler/gangs/device_time.h"
#include "controller/scheduler/gangs/gang.h"
#include "controller/scheduler/gangs/section_times.h"
#include "controller/scheduler/gangs/share_groups.h"
#include "protocol/messages.h"

namespace gangway {

struct GangOptions {
  int64_t quantum_min_ns = 2'000'000;
  int64_t quantum_by_grant_cost = 20;
  std::shared_ptr<ChargeLog> charge_log;  // Null: nobody looks.
};

// A place between two runs of a scope: runs before it have all their tickets, runs behind it none.
struct SequencePoint {
  SessionId session;
  uint64_t scope = 0;
  RunId behind;                  // The first run behind it; 0: there is none.
  std::function<Ticket()> take;  // Takes a ticket there.
};

class GangScheduler {
 public:
  // Gets granted ranges, in the order of tickets.
  using Send = std::function<void(std::vector<GrantRange>)>;
  GangScheduler(std::unique_ptr<Policy> policy, Send send, GangOptions options = {});

  void set_share(SessionId program, const Share& share) { policy_->set_share(program, share); }
  // The program's client is gone: forgets the program with its last plan.
  void forget(SessionId program);

  // The plan's runs may come from now on, so others are granted no further than a quantum ahead.
  void add_plan(PlanId id, GangPlan plan);
  void remove_plan(PlanId id);  // It has no runs left; one that was not added is ignored.

  // The run takes its place in the order of its scope. It is granted once the runs of `makers`,
  // whose outputs it takes, are granted whole or have ended.
  void submit(RunId id, PlanId plan, const std::vector<RunId>& makers = {});
  // The run's hosts were told to prepare it.
  void prepared(RunId id);
  // Whether any position of the run has a ticket.
  bool is_begun(RunId id) const;
  // The run has ended on all its hosts, or ends without having been prepared. `is_ok`: its granted
  // positions have run, though no report of them came; otherwise nothing more is charged for them.
  void ended(RunId id, bool is_ok);
  // Calls `send` with a ticket between those of the scope's runs so far and of its later runs.
  // `send` must not call back.
  void in_order(SessionId session, uint64_t scope, std::function<void(Ticket)> send);
  void drop_in_order(SessionId session);
  // From now on only prepared runs of this program begin, and what takes a ticket before them,
  // until let_go_on(), or forget(). Meanwhile only sequence points before these runs are shown.
  void hold(SessionId program) { held_.insert(program); }
  void let_go_on(SessionId program);
  // Shows `at_sequence_point` the sequence points of a watched scope that pump() comes to, from the
  // present point of the order on, each at least once. It must not call back, except watch() and
  // unwatch().
  using AtSequencePoint = std::function<void(const SequencePoint&)>;
  void watch_sequence_points(AtSequencePoint at_sequence_point) {
    at_sequence_point_ = std::move(at_sequence_point);
  }
  void watch(SessionId session, uint64_t scope);
  void unwatch(SessionId session, uint64_t scope) { watched_.erase({session, scope}); }
  bool is_watched(SessionId session, uint64_t scope) const {
    return !watched_.empty() && watched_.contains({session, scope});
  }

  // The home host of the slice reports that its devices have ended the positions before
  // `position_end`, and were busy for this long since its last report.
  void progress(const SectionTime& time, int64_t now_ns);
  // A device of the run does not go on: what the run was granted ahead holds up no other program,
  // and it gets no more turns until its devices have ended more of it, or it is taken back.
  void set_aside(RunId id);
  // The device goes on; the run waits for turns as before. A run that was not set aside is ignored.
  void take_back(RunId id);
  // Describes a run that waits while no device is at work on it.
  struct Wait {
    RunId behind;             // The run that goes first; 0: none is known.
    bool may_commit = false;  // Its gate has its ticket.
  };
  // None: all of the run has tickets, or a device is at work on the granted part, as far as hosts
  // have reported. O(runs).
  std::optional<Wait> waits_for_turn(RunId id) const;
  // Cost of sending one frame of grants: as measured, and known for the writes to its hosts.
  void grant_took(int64_t measured_ns, int64_t writes_ns);

  void pump(int64_t now_ns);

  // For each program: part of the time of the devices that it may run on, over the last second. A
  // program that is not listed used none.
  std::map<SessionId, double> used(int64_t now_ns) const;  // 0 to 1.
  int64_t quantum_ns() const;

 private:
  // A section under way that was never measured: it ends before this position of the run. 0: none.
  struct Measuring {
    RunId run;
    uint32_t end = 0;
  };
  struct PlanState {
    GangPlan plan;
    std::vector<SectionTimes> times;  // One for each slice.
    // For each slice: its groups where others may run.
    std::vector<std::vector<GroupId>> contended;
    std::vector<GroupId> all_contended;
    std::vector<Measuring> measuring;  // One for each slice.
    // Groups where a gang waits for its turn. Without reports one turn is for all slices at once.
    const std::vector<GroupId>& turns_of(uint32_t slice) const {
      return plan.by_section ? contended[slice] : all_contended;
    }
  };
  // An entry in the order of a scope: a run, or a call that takes one ticket.
  struct Item {
    RunId run;
    std::function<void(Ticket)> send;
  };
  using OrderKey = std::pair<SessionId, uint64_t>;
  using Order = std::map<uint64_t, Item>;
  struct RunState {
    RunId id;
    PlanState* plan = nullptr;
    uint64_t place = 0;  // Place in its order.
    bool is_prepared = false;
    bool is_aside = false;
    bool idled = false;              // Its program had no other run.
    bool was_granted_whole = false;  // Set once the runs that take its outputs were looked at.
    std::vector<Gang> gangs;
    std::vector<RunId> makers;
    std::vector<OrderKey> takers;  // Orders in which a run takes its outputs.
    // The neighbours in its order that have not ended; null: there is none.
    RunState *before = nullptr, *behind = nullptr;
  };

  static OrderKey order_of(const RunState& run);
  void advance(const OrderKey& key);
  bool is_held(const OrderKey& key) const;
  void show_sequence_point(const OrderKey& key, RunId behind);
  bool is_granted_whole(RunId id) const;  // Also if it has ended.
  static bool is_granted_whole(const RunState& run);
  RunId run_ahead_of(const RunState& run) const;
  RunId not_before(const RunState& run) const;
  void start(RunState& run);
  void grant_whole(RunState& run);
  void refresh(RunState& run);
  bool step(RunState& run, uint32_t slice);
  bool grant_gate(RunState& run);
  static bool has_ended(const RunState& run, uint32_t slice, const GangPlan::Stop& stop);
  bool may_receive(const RunState& run, uint32_t slice, const GangPlan::Stop& stop) const;
  void wait_for_turn(RunState& run, uint32_t slice);
  bool fill(GroupId group);
  bool reaches(GroupId group, int64_t ns) const;
  void take_turn(GangId id);
  uint32_t turn_end(const RunState& run, uint32_t slice) const;
  void grant(RunState& run, uint32_t slice, uint32_t end);
  void emit(const GrantRange& range);
  void flush();
  void charge(const RunState& run, uint32_t slice, int64_t ns);
  void note_use(const RunState& run, uint32_t slice, int64_t busy_ns, int64_t now_ns);
  void count_ahead(const RunState& run, uint32_t slice, const Gang::Ahead& more);
  void count_ended(const RunState& run, uint32_t slice, const Gang::Ahead& less);
  using Change = std::function<GroupChanges(const GangPlan::Slice&)>;
  void regroup(const GangPlan& plan, const Change& change);
  void forget_if_gone(SessionId program);
  void leave_turns();
  void recount();

  std::unique_ptr<Policy> policy_;
  Send send_;
  GangOptions options_;
  ShareGroups groups_;
  std::map<PlanId, PlanState> plans_;
  std::map<RunId, RunState> runs_;
  std::map<OrderKey, Order> orders_;
  // The last run of each scope in which some have not ended, also if they have left `orders_`.
  struct LastOfScope {
    uint64_t scope = 0;
    RunState* run = nullptr;
  };
  std::map<SessionId, std::vector<LastOfScope>> live_;  // Keyed by program.
  std::set<SessionId> leaving_;
  std::set<SessionId> held_;
  struct SliceUse {
    size_t devices = 0;
    DeviceTime time;
  };
  std::map<SessionId, std::map<SliceId, SliceUse>> used_;  // Keys: programs.
  int64_t looked_at_use_ns_ = 0;  // Last look for slices that can be dropped from used_.
  std::map<GroupId, Gang::Ahead> ahead_;
  std::set<OrderKey> dirty_;  // Orders where something may go on.
  std::set<OrderKey> watched_;
  AtSequencePoint at_sequence_point_;
  std::set<GroupId> hungry_;  // Groups that may want more.
  std::vector<GrantRange> out_;
  bool may_merge_ = false;  // The next range may be merged with the last of out_.
  Ticket next_ticket_{1};
  uint64_t last_place_ = 0;
  double grant_cost_ns_ = 0;
  int64_t now_ns_ = 0;
};

}  // namespace gangway
