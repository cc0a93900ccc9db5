#include "controller/programs/record_keeper.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "controller/programs/program.h"
#include "runtime/base/cat.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace {

// States that the slice has or had and no executable has any more. Names that a record can't hold
// are left out.
std::vector<std::string> released_states(const SliceRecord& slice,
                                         const std::set<std::string>& of_executables) {
  std::set<std::string> released = slice.lost_states;
  for (const auto& [name, state] : slice.placed_states) released.insert(name);
  std::vector<std::string> names;
  for (const std::string& name : released) {
    if (of_executables.contains(name) || name.empty() || !internal::is_utf8(name)) continue;
    if (names.size() < ProgramRecord::kReleasedStatesMax) names.push_back(name);
  }
  return names;
}

}  // namespace

// The version of the states after all runs that were submitted, if they commit.
uint64_t RecordKeeper::version_ahead(uint64_t scope) const {
  const SliceRecord* const slice = tables_.slices.find(SliceId(scope));
  if (slice == nullptr) return 0;
  return slice->version->value + tables_.runs.may_commit(*slice->runs).size();
}

void RecordKeeper::repetition_begins(const PlanRecord& plan, int64_t begin) {
  const bool is_other_under_way = repeated_ && repeated_->plan != plan.id &&
                                  repeated_->scope == plan.scope &&
                                  !program_.repeats.progress(repeated_->plan).ended;
  if (!plan.has_commit) return;
  if (is_other_under_way) return not_by_repetition_alone("two programs are repeated on it");
  const uint64_t version = version_ahead(plan.scope);
  const auto put = put_at_.find(plan.scope);
  const bool is_put = put != put_at_.end() && put->second == version;
  repeated_ = RepeatedStates{.plan = plan.id,
                             .scope = plan.scope,
                             .first = version - static_cast<uint64_t>(begin),
                             .restorable_from = version + (is_put ? 1 : 0)};
  program_.record_changed();
}

// Corrects the first version: runs before the first step may have failed.
void RecordKeeper::step_ended() {
  if (!repeated_) return;
  const std::optional<StateVersion> first = program_.repeats.first_version(repeated_->plan);
  if (!first || first->value == repeated_->first) return;
  repeated_->first = first->value;
  repeated_->restorable_from = std::max(repeated_->restorable_from, first->value + 1);
  program_.record_changed();
}

void RecordKeeper::run_begins(PlanId plan) {
  if (!repeated_) return;
  const PlanRecord* const run = tables_.plans.find(plan, program_.id);
  if (run != nullptr && run->has_commit && run->scope == repeated_->scope)
    not_by_repetition_alone("its client runs a program that writes them");
}

void RecordKeeper::writes_states(uint64_t scope) {
  const SliceRecord* const slice = tables_.slices.find(SliceId(scope));
  if (slice == nullptr || slice->owner != program_.id) return;
  put_at_[scope] = version_ahead(scope);
  if (repeated_ && repeated_->scope == scope) not_by_repetition_alone("its client writes them");
}

void RecordKeeper::checkpoint_written() {
  if (!std::exchange(has_checkpoint_, true)) program_.record_changed();
}

void RecordKeeper::not_by_repetition_alone(const std::string& why) {
  if (!repeated_) return;
  const bool has_record = record().has_value();
  const bool is_under_way = !program_.repeats.progress(repeated_->plan).ended;
  repeated_.reset();
  if (has_record && is_under_way)
    program_.warn(
        cat("the program would not go on behind a restart of its controller, until it is "
            "repeated again: what its states are is not by its repetition alone: ",
            why));
  program_.record_changed();
}

// False: the slices are not such that the program can be brought back.
bool RecordKeeper::add_slices(ProgramRecord& record, std::map<SliceId, uint32_t>& slices) const {
  bool is_kept = false;
  for (const SliceRecord* slice : tables_.slices.all_of(program_.id)) {
    const bool has_repeated = slice->id.value == repeated_->scope;
    if (has_repeated != slice->recovery.has_value()) return false;
    if (!has_repeated && !slice->placed_states.empty()) return false;
    if (has_repeated) {
      is_kept = true;
      record.kept_slice = static_cast<uint32_t>(slices.size());
      record.recovery = *slice->recovery;
      record.is_checkpointed = checkpoints_.newest(slice->id).has_value();
    }
    slices.emplace(slice->id, static_cast<uint32_t>(slices.size()));
    record.slices.push_back({slice->asked, slice->readers});
  }
  return is_kept;
}

// False: the plan that is repeated has no name.
bool RecordKeeper::add_executables(ProgramRecord& record,
                                   const std::map<SliceId, uint32_t>& slices) const {
  bool is_repeated = false;
  std::set<std::string> states;
  for (const auto& [id, named] : program_.executables.all()) {
    const PlanRecord& plan = tables_.plans.at(id, program_.id);
    if (id == repeated_->plan) {
      is_repeated = true;
      record.repetition.executable = static_cast<uint32_t>(record.executables.size());
    }
    ProgramRecord::Executable& executable = record.executables.emplace_back();
    executable = {.name = named.name,
                  .program = named.program,
                  .slices = {},
                  .runs_in_flight_max = static_cast<uint32_t>(plan.plan->runs_in_flight_max),
                  .dispatch = plan.plan->dispatch,
                  .position = named.position,
                  .states_since = plan.states_since.value_or(StateVersion()).value,
                  .texts = texts_of(plan.texts)};
    for (const SliceId slice : plan.slices) executable.slices.push_back(slices.at(slice));
    for (const PlanState& state : plan.plan->states)
      states.insert(plan.plan->values[state.value].name);
  }
  if (!is_repeated) return false;
  record.released_states = released_states(*tables_.slices.find(SliceId(repeated_->scope)), states);
  return true;
}

std::optional<ProgramRecord> RecordKeeper::record() const {
  if (!repeated_ || !program_.has_chosen_name) return std::nullopt;
  std::optional<RepeatRequest> asked = program_.repeats.asked(repeated_->plan);
  if (!asked || asked->steps == 0) return std::nullopt;
  ProgramRecord record{.name = program_.name,
                       .owner = program_.owner,
                       .share = program_.share,
                       .slices = {},
                       .executables = {},
                       .recovery = {}};
  std::map<SliceId, uint32_t> slices;
  if (!add_slices(record, slices) || !add_executables(record, slices)) return std::nullopt;
  record.repetition.steps = asked->steps;
  record.repetition.inputs = std::move(asked->inputs);
  record.repetition.earlier = std::move(asked->earlier);
  record.repetition.position = asked->position;
  record.repetition.first_version = repeated_->first;
  record.repetition.restorable_from = repeated_->restorable_from;
  return record;
}

}  // namespace gangway
