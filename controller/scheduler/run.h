// RunRecord: one execution of a plan, as the controller keeps it from the client's request to the
// last host's completion.
//
// Threads: the reactor's thread.
// Ownership: the RunTable's (runs.h), which leads it through its life; others read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/plans/plans.h"

namespace gangway {

struct RunRecord {
  RunId id;
  SessionId session;
  RunFrame request;            // With the client's names; without arrays once it is prepared.
  PlanRecord* plan = nullptr;  // Null: it names no plan that it may run.
  bool prepared = false;       // Its hosts have its PrepareFrame.
  std::vector<ArrayId> kept;   // Arguments and outputs that it refers to.
  std::vector<RunId> makers;   // Runs whose outputs it takes; they may have ended.
  std::set<HostId> pending;    // Hosts that have not reported that they are done.
  bool behind = false;         // It failed because the run before it did.
  // The error of the run that should have made an argument, where this run failed because that did.
  std::shared_ptr<const Error> lacks;
  // The first; that of the failure's origin replaces one that was passed on.
  std::optional<Error> error;
  bool is_origin = false;
  bool stopping = false;
  bool given_up = false;  // With its plan, since a host takes no part in runs of it.
  std::vector<SmallOutput> outputs;
  std::string stuck;   // The last report of a host that it is stuck, and in what; empty: none.
  DeviceRef stuck_at;  // The device of that report.
  bool stuck_waits = false;  // That device waits for other devices.
  int64_t deadline_ns = 0;   // 0: none. First its time limit, then its hosts' time to answer.
  bool past_limit = false;   // Its hosts were told to cancel it, since its time limit has passed.
  // Its end was reported to its client, though hosts have not answered.
  bool reported = false;

  void fail(const Error& why, bool is_the_origin) {
    if (error && (is_origin || !is_the_origin)) return;
    error = why;
    is_origin = is_the_origin;
  }
};

// The error of runs of the plan that were enqueued behind one that ended with `why`.
Error not_committed(const PlanRecord& plan, const Error& why);
// The time from a run's submission to its time limit.
int64_t time_limit_ns(int64_t time_limit_ms);
// The error of a run of the plan that is past its time limit. `why`: for what it waited; may be
// empty.
Error past_limit(const PlanRecord& plan, int64_t time_limit_ms, const std::string& why);

}  // namespace gangway
