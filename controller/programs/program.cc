#include "controller/programs/program.h"

#include <utility>
#include <variant>
#include <vector>

namespace gangway {
namespace {

size_t bytes_of_inputs(const RepeatRequest& request) {
  size_t bytes = 0;
  for (const ScheduledInput& input : request.inputs) {
    bytes += sizeof(input);
    if (const auto* constant = std::get_if<std::vector<std::byte>>(&input.value))
      bytes += constant->size();
  }
  for (const EarlierInput& input : request.earlier)
    bytes += sizeof(input) + input.schedule->bytes();
  return bytes;
}

}  // namespace

LiveProgram::LiveProgram(Identity identity, const Share& asked, ClientPeer& peer, const Uses& uses,
                         Callbacks callbacks)
    : id(identity.id),
      entry(uses.names, id, std::move(identity.owner), std::move(identity.name)),
      name(entry.name().program),
      owner(entry.name().owner),
      holder(entry.name().holder),
      since_ns(identity.since_ns),
      has_chosen_name(identity.has_chosen_name),
      share(asked),
      client(peer),
      log(std::make_shared<LogBuffer>(uses.clock, id)),
      calls(std::make_shared<CallTable>(std::move(callbacks.let_go))),
      run_memory(uses.owner_use, owner),
      executables(id, uses.records.plans),
      repeats(uses.fibers, std::move(callbacks.submit_step),
              [this](const std::string& line) { log->say(line); }),
      record_keeper(*this, uses.records),
      suspension(std::make_shared<Suspension>(id, holder, uses.suspensions)),
      owner_use_(uses.owner_use),
      controller_log_(uses.log),
      record_changed_(std::move(callbacks.record_changed)) {}

LiveProgram::~LiveProgram() { suspension->close(); }

void LiveProgram::warn(const std::string& line) {
  controller_log_.warn(line, {{"client", holder}, {"program", name}});
  log->say(line);
  client.send(WarningFrame{line});
}

void LiveProgram::count_names(const RunFrame& run) {
  client.note_names(run);
  executables.count_position(run);
}

void LiveProgram::take_run(RunFrame& run) {
  client.begin_run();
  count_names(run);
  run_memory.hold(run);
}

std::optional<Error> LiveProgram::begin_run(const RunFrame& run) {
  std::optional<Error> refused = repeats.refusal(run.plan);
  if (!refused) refused = run_memory.refusal(run.run);
  if (!refused) record_keeper.run_begins(run.plan);
  return refused;
}

void LiveProgram::end_run(RunDoneFrame&& done) {
  ++runs_done;
  run_memory.ended(done.run);
  if (done.error) log->say_run_failed(*done.error);
  const bool is_step = repeats.run_ended(done);
  if (is_step) record_keeper.step_ended();
  if (is_step || !client.end_run(done.run)) return;
  client.send(std::move(done));
}

void LiveProgram::repeat(const PlanRecord& plan, RepeatRequest request) {
  const uint64_t number = request.number;
  const int64_t begin = request.begin;
  const bool is_asked_again = repeats.progress(plan.id).number == number;
  OwnerUse::Hold held;
  if (!is_asked_again) held = take_memory(bytes_of_inputs(request), "repeat");
  const uint64_t last = repeats.begin(plan, std::move(request), std::move(held));
  if (!is_asked_again) record_keeper.repetition_begins(plan, begin);
  client.note_name(last);
  calls->note_number(number);
}

OwnerUse::Hold LiveProgram::take_memory(size_t bytes, const char* what) {
  return owner_use_.take(owner, OwnerResource::kMemory, bytes, what);
}

}  // namespace gangway
