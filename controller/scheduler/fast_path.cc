#include "controller/scheduler/fast_path.h"

#include "ir/plan/sequential.h"

namespace gangway {

void FastPath::installed(const PlanRecord& plan) {
  const std::string why = why_sequential(*plan.plan);
  if (why.empty()) return;
  warn_(plan.owner,
        cat("program \"", plan.plan->name,
            "\" is dispatched sequentially: its hosts do their work for a node only once the nodes "
            "before it have ended, not ahead of the data: ",
            why));
}

void FastPath::waits_for_memory(const PlanRecord& plan) {
  if (!short_.insert(plan.id).second) return;
  warn_(plan.owner,
        cat("program \"", plan.plan->name,
            "\" waits for memory between its runs, so that its hosts can't do their work for a run "
            "ahead of the data: the results of ",
            *plan.output_sets, " runs are kept or under way, memory was set aside for those of ",
            plan.plan->runs_in_flight_max,
            " (CompileOptions::runs_in_flight_max), and no more is free: let results go that "
            "nobody needs any more"));
}

}  // namespace gangway
