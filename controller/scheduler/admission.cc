#include "controller/scheduler/admission.h"

#include <algorithm>
#include <memory>

#include "runtime/base/units.h"

namespace gangway {
namespace {

// Both lists ascend by host and device.
bool overlap(const std::vector<Reservation>& a, const std::vector<Reservation>& b) {
  auto left = a.begin(), right = b.begin();
  while (left != a.end() && right != b.end()) {
    const DeviceRange &one = left->at, &other = right->at;
    if (one.contains({other.host, other.first}) || other.contains({one.host, one.first}))
      return true;
    const bool ends_first = one.host != other.host
                                ? one.host < other.host
                                : one.first + one.count < other.first + other.count;
    ++(ends_first ? left : right);
  }
  return false;
}

}  // namespace

bool Admission::has_room(const RunRecord& run) const {
  return run.plan->in_flight < run.plan->plan->runs_in_flight_max;
}

bool Admission::is_behind_a_short_run(const RunRecord& run) const {
  return std::any_of(short_.begin(), short_.lower_bound(run.id), [&](const auto& earlier) {
    return overlap(*earlier.second.plan->output_bytes, *run.plan->output_bytes);
  });
}

Result<bool> Admission::admit(const RunRecord& run) {
  PlanRecord& plan = *run.plan;
  if (run.request.outputs.empty()) return true;
  std::vector<std::shared_ptr<void>> holdings;
  holdings.emplace_back(nullptr, [sets = plan.output_sets](void*) { --*sets; });
  ++*plan.output_sets;
  if (*plan.output_sets > plan.plan->runs_in_flight_max) {
    const std::string owner = names_.holder(run.session);
    const bool is_behind = is_behind_a_short_run(run);
    const auto short_of = is_behind ? std::nullopt : hosts_.reserve(owner, *plan.output_bytes);
    if (is_behind || (short_of && objects_.any_held_by_runs_alone(short_of->at))) {
      short_[run.id] = {&plan, !is_behind};
      return false;
    }
    if (short_of) {
      return Error(
          ErrorKind::kOverloaded,
          cat("run of \"", plan.plan->name,
              "\": no memory for its outputs: ", hosts_.shortage(*short_of),
              " and no run in flight frees enough; ", hosts_.holders(short_of->at)),
          {.program = plan.plan->name},
          cat("let arrays go that nobody needs any more: the outputs of ", *plan.output_sets - 1,
              " runs of this program are kept or under way, and those of one would do"));
    }
    holdings.push_back(std::make_shared<Holding>(hosts_, owner, plan.output_bytes));
  }
  short_.erase(run.id);
  for (ArrayId output : run.request.outputs) {
    objects_.find(output, run.session).holdings = holdings;
  }
  return true;
}

std::vector<RunId> Admission::short_runs() const {
  std::vector<RunId> runs;
  runs.reserve(short_.size());
  for (const auto& [run, wait] : short_) runs.push_back(run);
  return runs;
}

void Admission::began(const RunRecord& run) {
  ++run.plan->in_flight;
  for (ArrayId array : run.kept) objects_.began(array);
}

void Admission::ended(const RunRecord& run) {
  short_.erase(run.id);
  if (!run.prepared) return;
  --run.plan->in_flight;
  for (ArrayId array : run.kept) objects_.ended(array);
}

}  // namespace gangway
