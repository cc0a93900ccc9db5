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
      entry(uses.tables.names, id, std::move(identity.owner), std::move(identity.name)),
      name(entry.name().program),
      owner(entry.name().owner),
      holder(entry.name().holder),
      since_ns(identity.since_ns),
      has_chosen_name(identity.has_chosen_name),
      share(asked),
      client(peer),
      log(std::make_shared<LogBuffer>(uses.clock, id)),
      calls(std::make_shared<CallTable>(std::move(callbacks.release_created))),
      run_memory(uses.tables.owner_use, owner),
      executables(id, uses.tables.plans),
      repeats(uses.repetition_fibers, std::move(callbacks.submit_step),
              [this](const std::string& line) { log->say(line); }),
      record_keeper(*this, uses.tables, uses.checkpoints),
      suspension(std::make_shared<Suspension>(id, holder, uses.suspensions)),
      tables_(uses.tables),
      controller_log_(uses.log),
      record_changed_(std::move(callbacks.record_changed)) {}

LiveProgram::~LiveProgram() { suspension->close(); }

void LiveProgram::attach(ClientPeer& peer) {
  GW_ASSERT(is_detached(), "client ", id, " is attached to twice");
  client.attach(peer);
  log->client_changed();
  log->say("a client has attached to it");
}

void LiveProgram::detach() {
  client.detach();
  has_chosen_name = true;  // Programs without a chosen name do not detach.
  calls->release_under_way();
  log->say("its client has gone, and it goes on without one");
}

void LiveProgram::set_share(const Share& asked) {
  require_share(holder, asked);
  share = asked;
  tables_.runs.set_share(id, share);
  record_changed();
}

void LiveProgram::report(Reported numbers) {
  require_reported(holder, numbers);
  reported = std::move(numbers);
}

LiveProgram::Holdings LiveProgram::holdings() const {
  Holdings all{.slices = {},
               .executables = {executables.all().begin(), executables.all().end()},
               .last_call = calls->last_number(),
               .releases = calls->releases(),
               .last_name = client.last_name(),
               .last_request = client.last_request()};
  for (const CallTable::Created& created : calls->all_created()) {
    if (const auto* slice = std::get_if<SliceId>(&created)) all.slices.push_back(*slice);
  }
  return all;
}

void LiveProgram::name_executable(PlanId plan, NamedExecutable named) {
  executables.name(plan, std::move(named));
  record_changed();
}

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

void LiveProgram::cancel_repetition(PlanId plan) {
  require_own(plan);
  repeats.cancel(plan);
  record_changed();
}

RepeatProgress LiveProgram::repetition(PlanId plan) const {
  require_own(plan);
  return repeats.progress(plan);
}

RepeatProgress LiveProgram::wait_for_repetition(PlanId plan, const StopToken& asker) {
  require_own(plan);
  return repeats.wait(plan, asker);
}

OwnerUse::Hold LiveProgram::take_memory(size_t bytes, const char* what) {
  return tables_.owner_use.take(owner, OwnerResource::kMemory, bytes, what);
}

}  // namespace gangway
