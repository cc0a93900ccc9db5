#include "controller/scheduler/admission.h"

#include <memory>
#include <vector>

#include "runtime/base/units.h"

namespace gangway {

bool Admission::has_room(const RunRecord& run) const {
  return run.plan->in_flight < run.plan->plan->runs_in_flight_max;
}

Result<bool> Admission::admit(const RunRecord& run) {
  PlanRecord& plan = *run.plan;
  if (run.request.outputs.empty()) return true;
  std::vector<std::shared_ptr<void>> holdings;
  holdings.emplace_back(nullptr, [sets = plan.output_sets](void*) { --*sets; });
  ++*plan.output_sets;
  if (*plan.output_sets > plan.plan->runs_in_flight_max) {
    const std::string owner = owner_name_(run.session);
    const auto short_of = hosts_.reserve(owner, plan.output_bytes);
    if (short_of && in_flight_ > 0 && objects_.any_held_by_runs_alone()) return false;
    if (short_of) {
      return Error(ErrorKind::kOverloaded,
                   cat("run of \"", plan.plan->name,
                       "\": no memory for its outputs: ", hosts_.shortage(*short_of),
                       " and no run in flight frees enough; ", hosts_.holders(short_of->at)),
                   {.program = plan.plan->name}, "let arrays go that nobody needs any more");
    }
    holdings.push_back(std::make_shared<Holding>(hosts_, owner, plan.output_bytes));
  }
  for (ArrayId output : run.request.outputs) {
    objects_.find(output, run.session).holdings = holdings;
  }
  return true;
}

void Admission::began(const RunRecord& run) {
  ++run.plan->in_flight;
  ++in_flight_;
}

void Admission::ended(const RunRecord& run) {
  --run.plan->in_flight;
  --in_flight_;
}

}  // namespace gangway
