// The part of Controller that decides which programs can go on after a restart of the controller,
// and makes the records from which they do.
#include <algorithm>
#include <utility>

#include "controller/service/controller.h"
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
uint64_t Controller::version_ahead(uint64_t scope) {
  const SliceRecord* const slice = slices_.find(SliceId(scope));
  if (slice == nullptr) return 0;
  return slice->version->value + runs_.may_commit(*slice->runs).size();
}

void Controller::note_repetition(SessionId id, const PlanRecord& plan, int64_t begin) {
  LiveProgram& program = programs_.at(id);
  const bool is_other_under_way = program.repeated && program.repeated->plan != plan.id &&
                                  program.repeated->scope == plan.scope &&
                                  !program.repeats.progress(program.repeated->plan).ended;
  if (!plan.has_commit) return;
  if (is_other_under_way) return not_by_repetition_alone(id, "two programs are repeated on it");
  const uint64_t version = version_ahead(plan.scope);
  const auto put = program.put_at.find(plan.scope);
  const bool is_put = put != program.put_at.end() && put->second == version;
  program.repeated = RepeatedStates{.plan = plan.id,
                                    .scope = plan.scope,
                                    .first = version - static_cast<uint64_t>(begin),
                                    .restorable_from = version + (is_put ? 1 : 0)};
  record_changed(id);
}

// Corrects the first version: runs before the first step may have failed.
void Controller::note_step(SessionId id) {
  const auto found = programs_.find(id);
  if (found == programs_.end() || !found->second.repeated) return;
  RepeatedStates& repeated = *found->second.repeated;
  const std::optional<StateVersion> first = found->second.repeats.first_version(repeated.plan);
  if (!first || first->value == repeated.first) return;
  repeated.first = first->value;
  repeated.restorable_from = std::max(repeated.restorable_from, first->value + 1);
  record_changed(id);
}

void Controller::note_run(SessionId id, PlanId plan) {
  const RepeatedStates repeated = *programs_.at(id).repeated;
  const std::vector<PlanRecord*> plans = plans_.all_of(id);
  const bool commits = std::any_of(plans.begin(), plans.end(), [&](const PlanRecord* one) {
    return one->id == plan && one->has_commit && one->scope == repeated.scope;
  });
  if (commits) not_by_repetition_alone(id, "its client runs a program that writes them");
}

void Controller::note_asked(SessionId session, SliceId slice, const SliceShape& asked) {
  slices_.at(slice, session).asked = asked;
}

void Controller::note_resuming(SessionId session, SliceId slice) {
  slices_.at(slice, session).is_resuming = true;
}

void Controller::note_restored(SessionId session, SliceId slice, StateVersion version) {
  slices_.at(slice, session).is_resuming = false;
  if (!options_.planted.forgets_resumed_programs) recovery_.keep(session, slice, version);
}

void Controller::note_lost_states(SessionId session, SliceId slice,
                                  const std::vector<std::string>& names) {
  if (names.empty()) return;
  slices_.at(slice, session).lost_states.insert(names.begin(), names.end());
  warn(session, goes_on_without(names, "its controller was started again"));
}

SliceTable::Elsewhere Controller::leave_hosts(SessionId session, SliceId slice,
                                              const std::set<HostId>& hosts) {
  return slice_queue_.leave_hosts(slices_.at(slice, session).id, hosts);
}

void Controller::note_checkpoint(SliceId id) {
  const SliceRecord* const slice = slices_.find(id);
  const auto session = slice == nullptr ? programs_.end() : programs_.find(slice->owner);
  if (session == programs_.end() || std::exchange(session->second.has_checkpoint, true)) return;
  record_changed(slice->owner);
}

void Controller::note_state_put(SessionId id, uint64_t scope) {
  LiveProgram& program = programs_.at(id);
  const SliceRecord* const slice = slices_.find(SliceId(scope));
  if (slice == nullptr || slice->owner != id) return;
  program.put_at[scope] = version_ahead(scope);
  if (program.repeated && program.repeated->scope == scope)
    not_by_repetition_alone(id, "its client writes them");
}

void Controller::not_by_repetition_alone(SessionId id, const std::string& why) {
  LiveProgram& program = programs_.at(id);
  if (!program.repeated) return;
  const std::optional<ProgramRecord> record = record_of(id);
  const bool is_under_way = !program.repeats.progress(program.repeated->plan).ended;
  program.repeated.reset();
  if (record && is_under_way)
    warn(id, cat("the program would not go on behind a restart of its controller, until it is "
                 "repeated again: what its states are is not by its repetition alone: ",
                 why));
  record_changed(id);
}

std::optional<ProgramRecord> Controller::record_of(SessionId id) {
  const auto found = programs_.find(id);
  if (found == programs_.end() || !found->second.repeated || !found->second.has_chosen_name)
    return std::nullopt;
  const LiveProgram& program = found->second;
  const RepeatedStates& repeated = *program.repeated;
  std::optional<RepeatRequest> asked = program.repeats.asked(repeated.plan);
  if (!asked || asked->steps == 0) return std::nullopt;
  ProgramRecord record{.name = program.name,
                       .owner = program.owner,
                       .share = program.share,
                       .slices = {},
                       .executables = {},
                       .recovery = {}};
  std::map<SliceId, uint32_t> slices;
  bool is_kept = false;
  for (const SliceRecord* slice : slices_.all_of(id)) {
    const bool has_repeated = slice->id.value == repeated.scope;
    if (has_repeated != slice->recovery.has_value()) return std::nullopt;
    if (!has_repeated && !slice->placed_states.empty()) return std::nullopt;
    if (has_repeated) {
      is_kept = true;
      record.kept_slice = static_cast<uint32_t>(slices.size());
      record.recovery = *slice->recovery;
      record.is_checkpointed = checkpoints_.newest(slice->id).has_value();
    }
    slices.emplace(slice->id, static_cast<uint32_t>(slices.size()));
    const bool has_shape = options_.planted.records_shrunk_slices;
    record.slices.push_back({has_shape ? slice->shape : slice->asked, slice->readers});
  }
  bool is_repeated = false;
  std::set<std::string> states;
  for (const auto& [id_of_plan, named] : program.executables) {
    const PlanRecord& plan = plans_.at(id_of_plan, id);
    if (id_of_plan == repeated.plan) {
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
  if (!is_kept || !is_repeated) return std::nullopt;
  record.released_states = released_states(*slices_.find(SliceId(repeated.scope)), states);
  record.repetition.steps = asked->steps;
  record.repetition.inputs = std::move(asked->inputs);
  record.repetition.earlier = std::move(asked->earlier);
  record.repetition.position = asked->position;
  record.repetition.first_version = repeated.first;
  record.repetition.restorable_from = repeated.restorable_from;
  return record;
}

}  // namespace gangway
