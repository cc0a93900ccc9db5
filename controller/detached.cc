// The part of Controller that gives programs their names, detaches and attaches clients, and
// repeats, suspends and resumes programs.
#include "controller/controller.h"
#include "runtime/base/units.h"
#include "runtime/fibers/kj_error.h"

namespace gangway {

const std::string& Controller::program_name(SessionId session) const {
  return open_program(session).name;
}

std::string Controller::free_name(const std::string& owner, std::string name,
                                  TakenName taken) const {
  const std::optional<SessionId> holder = names_.find(owner, name);
  if (!holder) return name;
  if (taken == TakenName::kRefused) {
    const int64_t for_ns = reactor_.clock().now_ns() - open_program(*holder).since_ns;
    throw Error(ErrorKind::kInvalid,
                cat("connect: the name \"", name, "\" is taken: a program of ", owner,
                    " has had it for ", format_duration_ns(for_ns)),
                {},
                "choose another name, attach to that program where it is detached, or end it with "
                "\"gangway stop\"");
  }
  for (int number = 2;; ++number) {
    std::string numbered = cat(name, "-", number);
    if (!names_.find(owner, numbered)) return numbered;
  }
}

void Controller::detach(SessionId id) {
  LiveProgram* const program = live(id);
  if (program == nullptr) return;
  program->client.detach();
  program->has_chosen_name = true;  // Programs without a chosen name do not detach.
  program->calls->release_under_way();
  program->log->say("its client has gone, and it goes on without one");
  const std::set<ArrayId> taken = recovery_.detached(id);
  runs_again_.detached(id);
  objects_.client_drops_all(id, taken);
  runs_.pump();
  record_changed(id);
}

// Steps of a suspended program do not end.
void Controller::end_repetitions(SessionId id, int64_t deadline_ns) {
  LiveProgram* const program = live(id);
  if (program == nullptr) return;
  const bool is_suspended = program->suspension->is_suspended();
  program->repeats.end_all(is_suspended ? reactor_.clock().now_ns() : deadline_ns);
}

int64_t Controller::suspend_program(SessionId id, const std::string& by, const StopToken& asker) {
  recovery_.wait_until_back(id, asker);
  // Shared, since the program may end meanwhile.
  const std::shared_ptr<Suspension> suspension = open_program(id).suspension;
  const bool is_new = !suspension->is_suspended();
  const Result<int64_t> bytes = result_of([&] { return suspension->suspend(asker); });
  if (is_new && suspension->is_suspended())
    warn(id,
         cat("the program is suspended by ", by, ": what it enqueues waits until it is resumed"));
  return bytes.value();
}

void Controller::resume_program(SessionId id, const std::string& by, const StopToken& asker) {
  const std::shared_ptr<Suspension> suspension = open_program(id).suspension;
  if (!suspension->is_suspended()) return;
  suspension->resume(asker);
  look_again();
  warn(id, cat("the program is resumed by ", by));
}

void Controller::attach(SessionId id, ClientPeer& peer) {
  LiveProgram& program = open_program(id);
  GW_ASSERT(is_detached(id), "client ", id, " is attached to twice");
  program.client.attach(peer);
  program.log->client_changed();
  program.log->say("a client has attached to it");
}

void Controller::name_executable(SessionId id, PlanId plan, NamedExecutable named) {
  open_program(id).executables.name(plan, std::move(named));
  record_changed(id);
}

Holdings Controller::holdings(SessionId id) const {
  const LiveProgram& program = open_program(id);
  const auto& executables = program.executables.all();
  Holdings holdings{.slices = {},
                    .executables = {executables.begin(), executables.end()},
                    .last_call = program.calls->last_number(),
                    .releases = program.calls->releases(),
                    .last_name = program.client.last_name(),
                    .last_request = program.client.last_request()};
  for (const CallTable::Made& made : program.calls->all_made()) {
    if (const auto* slice = std::get_if<SliceId>(&made)) holdings.slices.push_back(*slice);
  }
  return holdings;
}

void Controller::come_behind(SessionId session, uint64_t releases, const StopToken& asker) {
  const std::shared_ptr<CallTable> calls = open_program(session).calls;
  calls->come_behind(releases, asker);
}

// Nobody holds the outputs of a step, so they are dropped. Scalars come with the step's end.
void Controller::submit_step(SessionId id, RunFrame run) {
  LiveProgram* const program = live(id);
  if (program == nullptr) return;
  program->count_names(run);
  if (recovery_.is_moving(id)) return recovery_.defer_step(id, std::move(run));
  const std::vector<ArrayId> outputs = run.outputs;
  recovery_.submit(id, std::move(run));
  runs_again_.free(id, outputs);
}

void Controller::repeat(SessionId session, RepeatRequest request, const StopToken& asker) {
  recovery_.wait_until_back(session, asker);
  LiveProgram& program = open_program(session);
  const PlanRecord& plan = plans_.at(request.plan, session);
  program.repeat(plan, std::move(request));
}

LiveProgram& Controller::program_of(SessionId session, PlanId plan) {
  static_cast<void>(plans_.at(plan, session));
  return open_program(session);
}

void Controller::cancel_repetition(SessionId session, PlanId plan) {
  program_of(session, plan).repeats.cancel(plan);
  record_changed(session);
}

RepeatProgress Controller::repetition(SessionId session, PlanId plan) {
  return program_of(session, plan).repeats.progress(plan);
}

RepeatProgress Controller::wait_for_repetition(SessionId session, PlanId plan,
                                               const StopToken& asker) {
  return program_of(session, plan).repeats.wait(plan, asker);
}

}  // namespace gangway
