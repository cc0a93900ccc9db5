#include "controller/programs/run_path.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace gangway {

RunPath::RunPath(Reactor& reactor, SharedTables& tables, ProgramTable& programs,
                 Checkpoints& checkpoints, const Credits& credits)
    : clock_(reactor.clock()),
      tables_(tables),
      programs_(programs),
      credits_(credits),
      runs_again_(reactor, tables, programs, *this),
      recovery_(reactor, tables, programs, checkpoints, *this) {}

void RunPath::on_message(SessionId id, Message message) {
  LiveProgram* const found = programs_.find(id);
  if (found == nullptr) return;
  LiveProgram& program = *found;
  if (auto* run = std::get_if<RunFrame>(&message)) {
    GW_REQUIRE(program.client.runs() < credits_.runs, program.holder, ": sent more runs than its ",
               credits_.runs, " credits");
    // Before it is counted: its end would be taken for the end of the run that has the name.
    if (is_known_run(id, run->run)) {
      return program.client.send(RunDoneFrame{
          .run = run->run,
          .error = Error(ErrorKind::kInvalid, cat("run ", run->run, ": the name is taken"))});
    }
    program.take_run(*run);
  } else if (const auto* transfer = std::get_if<HostTransferFrame>(&message)) {
    GW_REQUIRE(program.client.transfers() < credits_.transfers, program.holder,
               ": sent more puts and gets than its ", credits_.transfers, " credits");
    program.client.begin_transfer(*transfer);
  } else if (auto* cancel = std::get_if<CancelFrame>(&message)) {
    // A client may only cancel: to the hosts, errors of other kinds say more than that.
    const Error why(ErrorKind::kCancelled, cancel->error.message(), cancel->error.where());
    if (!recovery_.cancel(id, cancel->run, why) && !runs_again_.cancel(id, cancel->run, why))
      tables_.runs.cancel(id, cancel->run, why);
    return;
  } else if (!std::holds_alternative<FreeFrame>(message) &&
             !std::holds_alternative<ReleaseFrame>(message)) {
    throw Error(ErrorKind::kInvalid,
                "frame: a client sent a kind of frame that is not its to send");
  }
  if (recovery_.is_moving(id)) {
    if (std::holds_alternative<ReleaseFrame>(message)) program.calls->release_has_come();
    return recovery_.defer(id, std::move(message));
  }
  act(program, std::move(message));
}

bool RunPath::is_known_run(SessionId id, RunId run) const {
  return tables_.runs.knows(id, run) || runs_again_.knows(id, run) || recovery_.knows(id, run);
}

void RunPath::act(LiveProgram& program, Message&& message) {
  const SessionId id = program.id;
  if (auto* run = std::get_if<RunFrame>(&message)) {
    // A step that waited while its program was brought back.
    if (program.repeats.is_step(run->run)) return recovery_.submit(id, std::move(*run));
    const std::optional<Error> refused = program.begin_run(*run);
    recovery_.submit(id, std::move(*run), refused);
  } else if (auto* transfer = std::get_if<HostTransferFrame>(&message)) {
    if (!runs_again_.waits(id, *transfer)) start_transfer(id, std::move(*transfer));
  } else if (const auto* arrays = std::get_if<FreeFrame>(&message)) {
    runs_again_.free(id, arrays->arrays);
    tables_.runs.pump();
  } else if (const auto* released = std::get_if<ReleaseFrame>(&message)) {
    program.calls->release(released->calls);
  }
}

// The other half of the release was done when the message came: see CallTable.
void RunPath::act_on_deferred(SessionId id, Message&& message) {
  LiveProgram* const program = programs_.find(id);
  if (program == nullptr) return;
  if (const auto* released = std::get_if<ReleaseFrame>(&message))
    return program->calls->release_later(released->calls);
  act(*program, std::move(message));
}

// Scalars come with the step's end.
void RunPath::submit_step(SessionId id, RunFrame step) {
  LiveProgram* const program = programs_.find(id);
  if (program == nullptr) return;
  program->count_names(step);
  if (recovery_.is_moving(id)) return recovery_.defer_step(id, std::move(step));
  const std::vector<ArrayId> outputs = step.outputs;
  recovery_.submit(id, std::move(step));
  runs_again_.free(id, outputs);
}

void RunPath::submit_to_runs_again(SessionId session, RunFrame&& run,
                                   const std::optional<Error>& refused) {
  const bool has_limit = run.time_limit_ms > 0;
  if (!runs_again_.waits(session, run, refused))
    submit_to_table(session, std::move(run), refused, clock_.now_ns());
  else if (has_limit)
    deadline_moved_.wake_all();
}

void RunPath::submit_to_table(SessionId session, RunFrame&& run,
                              const std::optional<Error>& refused, int64_t since_ns) {
  const auto before = tables_.runs.next_deadline_ns();
  tables_.runs.submit(session, std::move(run), since_ns, refused);
  if (tables_.runs.next_deadline_ns() != before) deadline_moved_.wake_all();
}

// Reads and writes of states take their turn among the runs; puts and gets of arrays do not.
void RunPath::start_transfer(SessionId id, HostTransferFrame frame) {
  recovery_.transfer_begins(id, frame);
  if (frame.kind == HostTransferKind::kGet || frame.kind == HostTransferKind::kPut)
    return tables_.transfers.start(id, std::move(frame));
  const StateScope scope = frame.scope;
  if (frame.kind == HostTransferKind::kWriteState)
    programs_.open(id).record_keeper.writes_states(scope.id);
  tables_.runs.in_order(id, scope, [this, id, state = std::move(frame)](Ticket ticket) mutable {
    state.ticket = ticket;
    tables_.transfers.start(id, std::move(state));
  });
}

void RunPath::run_ended(SessionId id, RunDoneFrame&& done, bool is_stopped) {
  if (!runs_again_.run_ended(id, done, is_stopped)) run_ended_for_good(id, std::move(done));
}

void RunPath::run_ended_for_good(SessionId id, RunDoneFrame&& done) {
  if (recovery_.run_ended(id, done)) programs_.run_ended(id, std::move(done));
}

void RunPath::transfer_ended(SessionId id, HostTransferKind kind, HostTransferDoneFrame done) {
  LiveProgram* const program = programs_.find(id);
  if (program == nullptr) return;
  // It can't keep its place among the runs: a host that was lost may still write to the memory that
  // it names. The client asks again; since it waits for the get, that may come after later runs.
  done.comes_again = (kind == HostTransferKind::kGet || kind == HostTransferKind::kReadState) &&
                     done.error && done.error->kind() == ErrorKind::kUnavailable &&
                     recovery_.is_moving(id);
  if (program->client.end_transfer(done.request)) program->client.send(done);
}

void RunPath::release_plan(PlanId plan) {
  const std::optional<SessionId> owner = tables_.plans.owner_of(plan);
  if (owner && !runs_again_.releases_later(*owner, plan)) tables_.plans.release(plan);
}

void RunPath::release_created(SessionId session, const CallTable::Created& created) {
  if (const auto* slice = std::get_if<SliceId>(&created)) return tables_.slices.release(*slice);
  if (std::holds_alternative<StatesRead>(created)) return;  // The client has it.
  const PlanId plan = std::get<PlanId>(created);
  if (LiveProgram* const program = programs_.find(session)) {
    program->repeats.plan_gone(plan);
    program->executables.drop(plan);
  }
  release_plan(plan);
  programs_.record_changed(session);
}

void RunPath::freed() {
  tables_.runs.pump();
  look_again();
}

void RunPath::look_again() {
  programs_.look_again();
  recovery_.look_again();
  runs_again_.look_again();
}

void RunPath::expire(int64_t now_ns, int64_t late_ns) {
  tables_.runs.expire(now_ns, late_ns);
  runs_again_.expire(now_ns);
}

std::optional<int64_t> RunPath::next_deadline_ns() const {
  const std::optional<int64_t> of_table = tables_.runs.next_deadline_ns();
  const std::optional<int64_t> of_waiting = runs_again_.next_deadline_ns();
  return of_table && of_waiting ? std::min(*of_table, *of_waiting)
         : of_table             ? of_table
                                : of_waiting;
}

}  // namespace gangway
