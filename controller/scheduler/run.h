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
#include <vector>

#include "controller/lowering/plans.h"

namespace gangway {

struct RunRecord {
  RunId id;
  SessionId session;
  RunFrame request;            // As the client named things; without arrays once it is prepared.
  PlanRecord* plan = nullptr;  // Null: it names none that it may run.
  bool prepared = false;       // Its hosts have its prepare.
  std::vector<ArrayId> kept;   // Arguments and outputs it refers to.
  std::vector<RunId> makers;   // The runs of which it takes outputs; they may have ended.
  std::set<HostId> pending;    // Hosts that have not said that they are done.
  bool behind = false;         // It failed because the run before it did.
  // It failed because the run that should have made one of its arguments did, for this reason.
  std::shared_ptr<const Error> lacks;
  std::optional<Error> error;  // The first; a culprit's wins over hearsay.
  bool culprit = false;
  bool stopping = false;
  std::vector<SmallOutput> outputs;
  std::string stuck;         // What a host said last that it is stuck in; empty: nothing.
  DeviceRef stuck_at;        // Which device.
  bool stuck_waits = false;  // For other devices.
  int64_t deadline_ns = 0;   // 0: none. First its time limit, then its hosts' time to answer.
  bool past_limit = false;   // Its hosts were told to cancel it, since its time limit has passed.
  Frame late_prepare;        // See PlantedControllerBugs.
  bool told = false;         // Its client has been told its end, though hosts have not answered.

  void fail(const Error& why, bool is_culprit) {
    if (error && (culprit || !is_culprit)) return;
    error = why;
    culprit = is_culprit;
  }
};

}  // namespace gangway
