// FastPath: tells a client's user, and the controller's log, when a program has lost the fast path:
// the host-side work of its runs no longer goes ahead of their data. One line, once for each plan
// and reason.
//
//   sequential dispatch  nodes wait for the end of those before them (ir/plan/sequential.h)
//   memory               a run can't be prepared, since the results of earlier ones are kept
//
// Threads: the reactor's thread. Cost: a look-up where a run waits; nothing on the fast path.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "controller/plans/plans.h"

namespace gangway {

class FastPath {
 public:
  using Warn = std::function<void(SessionId, const std::string& line)>;
  explicit FastPath(Warn warn) : warn_(std::move(warn)) {}

  void installed(const PlanRecord& plan);
  // A run of the plan that could go on otherwise is short of memory for its results.
  void waits_for_memory(const PlanRecord& plan);
  void gone(PlanId plan) { short_.erase(plan); }

 private:
  Warn warn_;
  std::set<PlanId> short_;  // Plans whose clients were told.
};

}  // namespace gangway
