#include "controller/programs/runs_again.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "controller/programs/more_room.h"

namespace gangway {
namespace {

// The run table says the same of the runs that it knows.
Error not_committed(const PlanRecord& plan, const Error& why) {
  return {ErrorKind::kCancelled,
          cat("run of \"", plan.plan->name,
              "\": nothing was committed, since the run before it did not commit: ", why.message()),
          {.program = plan.plan->name},
          "handle the error of that run, then run again"};
}

bool is_of_states(const CopyFrame& copy) {
  return copy.kind == CopyKind::kGetState || copy.kind == CopyKind::kPutState;
}

// The plan that a message needs to be installed; 0: none.
PlanId plan_needed_by(const CopyFrame& copy) {
  return copy.kind == CopyKind::kPut ? copy.plan : PlanId();
}
PlanId plan_needed_by(const Message& message) {
  if (const auto* run = std::get_if<RunFrame>(&message)) return run->plan;
  const auto* copy = std::get_if<CopyFrame>(&message);
  return copy != nullptr ? plan_needed_by(*copy) : PlanId();
}

const Error& lost() {
  static const Error error(ErrorKind::kUnavailable, "run: a host of its program was lost");
  return error;
}

// Arrays that are not there before the message is acted on.
std::vector<ArrayId> made_by(const Message& message) {
  if (const auto* run = std::get_if<RunFrame>(&message)) return run->outputs;
  const auto* copy = std::get_if<CopyFrame>(&message);
  if (copy != nullptr && copy->kind == CopyKind::kPut) return {copy->array};
  return {};
}

}  // namespace

// The plan is not released while the program's fiber is at it.
class RunsAgain::Installing {
 public:
  Installing(Program& program, PlanId plan) : program_(program) { program.installing = plan; }
  ~Installing() { program_.installing = PlanId(); }
  Installing(const Installing&) = delete;

 private:
  Program& program_;
};

RunsAgain::ProgramPtr RunsAgain::program_of(SessionId session) const {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : found->second;
}

PlanRecord* RunsAgain::plan_of(const Program& program, PlanId plan) const {
  return tables_.plans.find(plan, program.session);
}

void RunsAgain::begin(SessionId session) {
  ProgramPtr& program = programs_[session];
  if (program != nullptr) return;
  program = std::make_shared<Program>();
  program->session = session;
}

bool RunsAgain::take(SessionId session, RunFrame& run, const std::optional<Error>& refused) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const bool waits =
      !program->waiting.empty() || lacks_plan(*program, run.plan) || depends(*program, run);
  if (waits) {
    enqueue(program, std::move(run), refused);
  } else if (!refused) {
    track(*program, run);
  }
  return waits;
}

bool RunsAgain::take_copy(SessionId session, CopyFrame& copy) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const bool waits = (is_of_states(copy) && !program->waiting.empty()) ||
                     lacks_plan(*program, plan_needed_by(copy)) || depends(*program, copy);
  if (waits) enqueue(program, std::move(copy), {});
  return waits;
}

bool RunsAgain::lacks_plan(const Program& program, PlanId plan) {
  const auto found = program.executables.find(plan);
  return found != program.executables.end() && found->second.lacks_plan;
}

bool RunsAgain::any_overflowed(const Program& program) {
  return std::ranges::any_of(program.executables,
                             [](const auto& item) { return item.second.overflowed; });
}

// Whether the message comes behind a run that may still overflow.
bool RunsAgain::depends_on_a_run(const Program& program, const Message& message) const {
  if (std::holds_alternative<FreeFrame>(message)) return false;
  const auto* run = std::get_if<RunFrame>(&message);
  return run != nullptr ? depends(program, *run) : depends(program, std::get<CopyFrame>(message));
}

bool RunsAgain::depends(const Program& program, const CopyFrame& copy) const {
  if (any_overflowed(program)) return true;
  if (!is_of_states(copy)) return false;
  return std::ranges::any_of(program.executables, [&](const auto& item) {
    return !item.second.runs.empty() && plan_of(program, item.first)->scope == copy.scope.id;
  });
}

bool RunsAgain::depends(const Program& program, const RunFrame& run) const {
  if (any_overflowed(program)) return true;
  const PlanRecord* const plan = plan_of(program, run.plan);
  if (plan == nullptr) return false;
  const auto takes_output_of = [&](const HeldPtr& held) {
    return std::ranges::any_of(run.arguments, [&](const ArgumentFrame& argument) {
      return argument.bytes.empty() &&
             std::ranges::find(held->frame.outputs, argument.array) != held->frame.outputs.end();
    });
  };
  return std::ranges::any_of(program.executables, [&](const auto& item) {
    const auto& [id, executable] = item;
    if (executable.runs.empty()) return false;
    // A run of the same executable runs again with those before it, unless it begins a new chain:
    // then it could commit first, and they would commit behind it.
    if (id == run.plan) return plan->has_commit && run.after != executable.runs.back()->frame.run;
    return plan_of(program, id)->scope == plan->scope ||
           std::ranges::any_of(executable.runs, takes_output_of);
  });
}

void RunsAgain::enqueue(const ProgramPtr& program, Message&& message,
                        const std::optional<Error>& refused) {
  program->waiting.push_back(
      {.message = std::move(message), .refused = refused, .kept = {}, .open = {}});
  Waiting& waiting = program->waiting.back();
  const std::vector<ArrayId> made = made_by(waiting.message);
  program->to_be_made.insert(made.begin(), made.end());
  if (const auto* run = std::get_if<RunFrame>(&waiting.message)) {
    keep_arguments(*program, *run, waiting.kept);
    waiting.open = counted_open(*program, run->plan);
  }
  wake(program);
}

// Remembers a run that is submitted now, if it may overflow.
void RunsAgain::track(Program& program, const RunFrame& run) {
  const PlanRecord* const plan = plan_of(program, run.plan);
  if (plan == nullptr || !plan->may_overflow || plan->broken) return;
  if (!program.by_run.emplace(run.run, run.plan).second) return;
  const auto held = std::make_shared<Held>();
  held->frame = run;
  keep_arguments(program, run, held->kept);
  program.executables[run.plan].runs.push_back(held);
}

// Arguments that are not there yet are outputs of runs that wait before it, and kept later.
void RunsAgain::keep_arguments(const Program& program, const RunFrame& run,
                               std::vector<ArrayId>& kept) {
  for (const ArgumentFrame& argument : run.arguments) {
    if (!argument.bytes.empty() || !tables_.objects.is_there(argument.array, program.session) ||
        std::ranges::find(kept, argument.array) != kept.end())
      continue;
    tables_.objects.keep(argument.array);
    kept.push_back(argument.array);
  }
}

void RunsAgain::drop_kept(std::vector<ArrayId>& kept) {
  for (const ArrayId array : std::exchange(kept, {})) tables_.objects.drop(array);
}

// Calls body(run, kept) for each run that is remembered.
template <class Body>
void RunsAgain::for_each_run(Program& program, const Body& body) {
  for (auto& [plan, executable] : program.executables) {
    for (const HeldPtr& held : executable.runs) body(held->frame, held->kept);
  }
  for (Waiting& waiting : program.waiting) {
    if (const auto* run = std::get_if<RunFrame>(&waiting.message)) body(*run, waiting.kept);
  }
}

// Keeps none of the arrays that these runs are to make once more.
void RunsAgain::drop_outputs(Program& program, PlanId plan) {
  std::set<ArrayId> made;
  for (const HeldPtr& held : program.executables.at(plan).runs)
    made.insert(held->frame.outputs.begin(), held->frame.outputs.end());
  for_each_run(program, [&](const RunFrame&, std::vector<ArrayId>& kept) {
    std::erase_if(kept, [&](ArrayId array) {
      if (made.contains(array)) tables_.objects.drop(array);
      return made.contains(array);
    });
  });
}

// The versions that a scope may still reach are counted from the runs that are open in it.
std::shared_ptr<void> RunsAgain::counted_open(const Program& program, PlanId plan) const {
  const PlanRecord* const record = plan_of(program, plan);
  if (record == nullptr) return nullptr;
  ++record->scope_runs->open;
  return {nullptr, [scope = record->scope_runs](void*) { --scope->open; }};
}

void RunsAgain::free(SessionId session, const std::vector<ArrayId>& arrays) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  FreeFrame later;
  for (const ArrayId array : arrays) {
    if (program != nullptr && program->to_be_made.erase(array) > 0) {
      later.arrays.push_back(array);
    } else {
      tables_.objects.client_drops(array, session);
    }
  }
  if (!later.arrays.empty()) enqueue(program, std::move(later), {});
}

bool RunsAgain::take_end(SessionId session, RunDoneFrame& done) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  const auto known = program->by_run.find(done.run);
  if (known == program->by_run.end()) return false;
  const PlanId plan = known->second;
  const RunId run = done.run;
  Executable& executable = program->executables.at(plan);
  const auto at =
      std::ranges::find(executable.runs, run, [](const HeldPtr& held) { return held->frame.run; });
  const auto held = std::shared_ptr<Held>(*at);  // settle() may drop it.
  held->ended = std::move(done);
  if (!executable.overflowed) settle(*program, plan);
  if (program->by_run.contains(run)) held->open = counted_open(*program, plan);
  prune(*program);
  wake(program);
  return true;
}

// Ends runs in their order, up to one that is to be run again.
void RunsAgain::settle(Program& program, PlanId plan) {
  Executable& executable = program.executables.at(plan);
  while (!executable.runs.empty() && executable.runs.front()->ended) {
    const HeldPtr first = executable.runs.front();
    std::optional<Error>& error = first->ended->error;
    if (error && error->kind() == ErrorKind::kOverflow) {
      const PlanRecord& record = *plan_of(program, plan);
      const auto before = record.failed.find(first->frame.after);
      if (record.has_commit && before != record.failed.end()) {
        error = before->second;
      } else if (tables_.slices.find(SliceId(record.scope))->is_moving &&
                 callbacks_.is_recovered(program.session, first->frame.run)) {
        error = lost();
      } else {
        executable.overflowed = true;
        return;
      }
    }
    finish(program, plan, first, std::move(*first->ended));
  }
}

void RunsAgain::finish(Program& program, PlanId plan, const HeldPtr& held, RunDoneFrame&& done) {
  std::erase(program.executables.at(plan).runs, held);
  program.by_run.erase(held->frame.run);
  drop_kept(held->kept);
  held->open.reset();
  callbacks_.ended(program.session, std::move(done));
}

// `behind`: the error of the runs that come after it.
void RunsAgain::note_failed(PlanRecord& plan, RunId run, const Error& behind) {
  if (plan.has_commit) plan.failed.insert_or_assign(run, behind);
}

// Ends a run that is not run again. The runs behind it say why.
void RunsAgain::finish_dropped(Program& program, PlanId plan, const HeldPtr& held,
                               const Error& why) {
  PlanRecord& record = *plan_of(program, plan);
  const bool is_behind = program.executables.at(plan).dropped.contains(held->frame.after);
  const Error behind = is_behind ? why : not_committed(record, why);
  if (record.has_commit) program.executables.at(plan).dropped.emplace(held->frame.run, behind);
  note_failed(record, held->frame.run, behind);
  finish(program, plan, held, {.run = held->frame.run, .error = why});
}

// Ends the runs that were cancelled before they could run again, and those behind them.
void RunsAgain::end_cancelled(Program& program, PlanId plan) {
  const std::deque<HeldPtr> runs = program.executables.at(plan).runs;
  for (const HeldPtr& held : runs) {
    if (!held->ended) continue;
    const auto& dropped = program.executables.at(plan).dropped;
    const auto before = dropped.find(held->frame.after);
    if (before != dropped.end()) {
      finish_dropped(program, plan, held, Error(before->second));
    } else if (held->cancelled) {
      finish_dropped(program, plan, held, *held->cancelled);
    }
  }
}

void RunsAgain::fail_all(Program& program, PlanId plan, const Error& why) {
  Executable& executable = program.executables.at(plan);
  executable.overflowed = false;
  const std::deque<HeldPtr> runs = executable.runs;
  for (const HeldPtr& held : runs) {
    PlanRecord& record = *plan_of(program, plan);
    note_failed(record, held->frame.run, not_committed(record, why));
    finish(program, plan, held, {.run = held->frame.run, .error = held->cancelled.value_or(why)});
  }
  program.executables.at(plan).dropped.clear();
  callbacks_.freed();
}

bool RunsAgain::cancel(SessionId session, RunId run, const Error& why) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return false;
  if (const auto known = program->by_run.find(run); known != program->by_run.end()) {
    const PlanId plan = known->second;
    Executable& executable = program->executables.at(plan);
    const HeldPtr held = *std::ranges::find(executable.runs, run,
                                            [](const HeldPtr& other) { return other->frame.run; });
    held->cancelled = why;
    if (!held->ended) return false;
    if (executable.overflowed) end_cancelled(*program, plan);
    callbacks_.freed();
    wake(program);
    return true;
  }
  return cancel_waiting(program, run, why);
}

bool RunsAgain::cancel_waiting(const ProgramPtr& program, RunId run, const Error& why) {
  const auto at = std::ranges::find_if(program->waiting, [&](const Waiting& waiting) {
    const auto* frame = std::get_if<RunFrame>(&waiting.message);
    return frame != nullptr && frame->run == run;
  });
  if (at == program->waiting.end()) return false;
  Waiting cancelled = std::move(*at);
  program->waiting.erase(at);
  const auto& frame = std::get<RunFrame>(cancelled.message);
  for (const ArrayId array : frame.outputs) program->to_be_made.erase(array);
  drop_kept(cancelled.kept);
  PlanRecord* const record = plan_of(*program, frame.plan);
  if (record != nullptr && record->plan != nullptr)
    note_failed(*record, run, not_committed(*record, why));
  callbacks_.ended(program->session, {.run = run, .error = why});
  callbacks_.freed();
  wake(program);
  return true;
}

bool RunsAgain::has_run(SessionId session, RunId run) const {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  return program->by_run.contains(run) ||
         std::ranges::any_of(program->waiting, [&](const Waiting& waiting) {
           const auto* frame = std::get_if<RunFrame>(&waiting.message);
           return frame != nullptr && frame->run == run;
         });
}

bool RunsAgain::is_needed(const Program& program, PlanId plan) {
  const auto found = program.executables.find(plan);
  if (found != program.executables.end() && !found->second.runs.empty()) return true;
  return program.installing == plan ||
         std::ranges::any_of(program.waiting, [&](const Waiting& waiting) {
           return plan_needed_by(waiting.message) == plan;
         });
}

bool RunsAgain::releases_later(SessionId session, PlanId plan) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return false;
  const bool later = is_needed(*program, plan);
  const auto found = program->executables.find(plan);
  if (later) {
    program->executables[plan].released = true;
  } else if (found != program->executables.end()) {
    found->second.lacks_plan = false;
    prune(*program);
  }
  return later;
}

void RunsAgain::slice_moves(SliceId slice) {
  const ProgramPtr program =
      programs_.empty() ? nullptr : program_of(tables_.slices.find(slice)->owner);
  if (program == nullptr) return;
  for (auto& [plan, executable] : program->executables) {
    const std::deque<HeldPtr> runs = executable.runs;
    for (const HeldPtr& held : runs) {
      if (!held->ended || !callbacks_.is_recovered(program->session, held->frame.run)) continue;
      finish(*program, plan, held,
             {.run = held->frame.run, .error = held->cancelled.value_or(lost())});
    }
    executable.overflowed = executable.overflowed && !executable.runs.empty();
  }
  std::deque<Waiting> waiting = std::exchange(program->waiting, {});
  const std::set<ArrayId> held = std::exchange(program->to_be_made, {});
  for (Waiting& one : waiting) {
    drop_kept(one.kept);
    const auto* run = std::get_if<RunFrame>(&one.message);
    if (run != nullptr && (one.refused || callbacks_.is_recovered(program->session, run->run))) {
      std::vector<ArrayId> outputs = run->outputs;
      std::erase_if(outputs, [&](ArrayId array) { return !held.contains(array); });
      if (!one.refused) callbacks_.are_held(program->session, outputs);
      callbacks_.ended(program->session, {.run = run->run, .error = one.refused.value_or(lost())});
    } else {
      callbacks_.defer(program->session, std::move(one.message));
    }
  }
  wake(program);
}

// Nobody waits for what hosts would send any more, and nobody holds what runs that wait will make.
void RunsAgain::detached(SessionId session) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return;
  std::erase_if(program->waiting, [](const Waiting& waiting) {
    const auto* copy = std::get_if<CopyFrame>(&waiting.message);
    return copy != nullptr && (copy->kind == CopyKind::kGet || copy->kind == CopyKind::kGetState);
  });
  FreeFrame freed;
  for (const Waiting& waiting : program->waiting) {
    for (const ArrayId array : made_by(waiting.message)) {
      if (program->to_be_made.contains(array)) freed.arrays.push_back(array);
    }
  }
  program->to_be_made.clear();
  if (!freed.arrays.empty()) enqueue(program, std::move(freed), {});
}

void RunsAgain::session_closed(SessionId session) {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return;
  programs_.erase(session);
  program->is_gone = true;
  for_each_run(*program, [&](const RunFrame&, std::vector<ArrayId>& kept) { drop_kept(kept); });
  program->executables.clear();
  program->by_run.clear();
  program->waiting.clear();
  program->changed.wake_all();
}

void RunsAgain::wake_all() {
  for (const auto& [session, program] : programs_) program->changed.wake_all();
}

size_t RunsAgain::held(SessionId session) const {
  const ProgramPtr program = programs_.empty() ? nullptr : program_of(session);
  if (program == nullptr) return 0;
  size_t held = 0;
  for (const Waiting& waiting : program->waiting)
    held += std::holds_alternative<RunFrame>(waiting.message) ? 1 : 0;
  for (const auto& [plan, executable] : program->executables)
    held += static_cast<size_t>(std::ranges::count_if(
        executable.runs, [](const HeldPtr& one) { return one->ended.has_value(); }));
  return held;
}

size_t RunsAgain::held() const {
  size_t all = 0;
  for (const auto& [session, program] : programs_) all += held(session);
  return all;
}

// Forgets executables of which nothing is left to do. The program's fiber does it itself.
void RunsAgain::prune(Program& program) {
  if (program.is_at_work) return;
  std::erase_if(program.executables, [](const auto& item) {
    const Executable& executable = item.second;
    return executable.runs.empty() && !executable.lacks_plan && !executable.released;
  });
}

bool RunsAgain::has_work(const Program& program) const {
  return any_overflowed(program) || to_release(program) != PlanId() ||
         (!program.waiting.empty() && !depends_on_a_run(program, program.waiting.front().message));
}

PlanId RunsAgain::to_release(const Program& program) {
  for (const auto& [plan, executable] : program.executables) {
    if (executable.released && !is_needed(program, plan)) return plan;
  }
  return {};
}

void RunsAgain::wake(const ProgramPtr& program) {
  program->changed.wake_all();
  if (program->is_at_work || !has_work(*program)) return;
  program->is_at_work = true;
  fibers_.spawn("runs again", [this, program] { work(*program); });
}

void RunsAgain::work(Program& program) {
  while (!program.is_gone) {
    const Result<bool> worked = result_of([&] { return work_once(program); });
    if (program.is_gone) return;
    if (!worked.ok()) {
      if (worked.error().kind() == ErrorKind::kCancelled) return;  // The controller ends.
      std::vector<PlanId> overflowed;
      for (const auto& [plan, executable] : program.executables) {
        if (executable.overflowed) overflowed.push_back(plan);
      }
      for (const PlanId plan : overflowed) fail_all(program, plan, worked.error());
    } else if (!worked.value()) {
      break;
    }
  }
  program.is_at_work = false;
  if (!program.is_gone) prune(program);
}

// False: there is nothing to do now.
bool RunsAgain::work_once(Program& program) {
  for (const auto& [plan, executable] : program.executables) {
    if (!executable.overflowed) continue;
    run_again(program, PlanId(plan));
    return true;
  }
  if (const PlanId plan = to_release(program); plan != PlanId()) {
    program.executables.erase(plan);
    tables_.plans.release(plan);
    return true;
  }
  if (program.waiting.empty() || depends_on_a_run(program, program.waiting.front().message))
    return false;
  if (const PlanId plan = plan_needed_by(program.waiting.front().message);
      lacks_plan(program, plan)) {
    install_last(program, plan);
    if (program.is_gone || program.waiting.empty()) return true;
  }
  act_on_first(program);
  return true;
}

// Acts on the first message that waits.
void RunsAgain::act_on_first(Program& program) {
  Waiting first = std::move(program.waiting.front());
  program.waiting.pop_front();
  for (const ArrayId array : made_by(first.message)) program.to_be_made.erase(array);
  if (auto* run = std::get_if<RunFrame>(&first.message)) {
    if (lacks_plan(program, run->plan)) {  // The run table refuses the run.
      PlanRecord& record = *plan_of(program, run->plan);
      note_failed(record, run->run, not_committed(record, *record.broken));
    }
    if (!first.refused) track(program, *run);
    callbacks_.submit(program.session, std::move(*run), first.refused);
    keep_all_arguments(program);
  } else if (auto* copy = std::get_if<CopyFrame>(&first.message)) {
    callbacks_.copy(program.session, std::move(*copy));
    keep_all_arguments(program);
  } else {
    for (const ArrayId array : std::get<FreeFrame>(first.message).arrays)
      tables_.objects.client_drops(array, program.session);
  }
  drop_kept(first.kept);
  callbacks_.freed();
}

void RunsAgain::keep_all_arguments(Program& program) {
  for_each_run(program, [&](const RunFrame& run, std::vector<ArrayId>& kept) {
    keep_arguments(program, run, kept);
  });
}

// Whether all runs have left the run table.
bool RunsAgain::has_left(const Program& program, PlanId plan) const {
  return plan_of(program, plan)->runs == 0 &&
         std::ranges::all_of(program.executables.at(plan).runs,
                             [](const HeldPtr& held) { return held->ended.has_value(); });
}

// Whether nobody uses what the runs have made, which they are to make once more.
bool RunsAgain::may_make_again(Program& program, PlanId plan) {
  drop_outputs(program, plan);
  return std::ranges::none_of(program.executables.at(plan).runs, [&](const HeldPtr& held) {
    return std::ranges::any_of(held->frame.outputs,
                               [&](ArrayId array) { return tables_.objects.is_used(array); });
  });
}

// Suspends.
void RunsAgain::run_again(Program& program, PlanId plan) {
  const Installing keeps_plan(program, plan);
  while (!program.is_gone && !has_left(program, plan))
    program.changed.wait("for runs behind one that overflowed to end");
  if (program.is_gone) return;
  end_cancelled(program, plan);
  Executable& executable = program.executables.at(plan);
  executable.overflowed = false;
  settle(program, plan);
  // Arguments of others are dropped only if these runs are going to make them again.
  while (executable.overflowed && has_left(program, plan) && !may_make_again(program, plan)) {
    program.changed.wait("for what runs have made to be used");
    if (program.is_gone) return;
  }
  if (is_over(program, plan)) return;
  const std::shared_ptr<const gangway::Program> graph = plan_of(program, plan)->program;
  const std::shared_ptr<const MoreRoom> more = tables_.background.run(
      tables_.names.owner(program.session),
      [graph] { return std::make_shared<const MoreRoom>(more_room(*graph)); });
  if (program.is_gone || is_over(program, plan) || !install(program, plan, more->program)) return;
  callbacks_.warn(program.session, more->warning);
  submit_again(program, plan);
}

// Whether no run is left that is to run again: all were cancelled, or Recovery has them.
bool RunsAgain::is_over(Program& program, PlanId plan) {
  Executable& executable = program.executables.at(plan);
  if (executable.overflowed && !executable.runs.empty()) return false;
  executable.overflowed = false;
  executable.dropped.clear();
  return true;
}

// Puts the plan of this graph in the place of the one that is installed. Suspends. False: it can't
// be, and all runs of the plan have ended.
bool RunsAgain::install(Program& program, PlanId plan,
                        const std::shared_ptr<const gangway::Program>& graph) {
  const std::shared_ptr<void> may_compile = callbacks_.may_compile(program.session);
  if (program.is_gone) return false;
  PlanRecord* record = plan_of(program, plan);
  if (record->runs > 0) return false;  // Recovery runs them again.
  if (!lacks_plan(program, plan) && is_over(program, plan)) return false;
  const bool is_moving = tables_.slices.find(SliceId(record->scope))->is_moving;
  if (is_moving || (record->broken && !lacks_plan(program, plan))) {
    fail_all(program, plan, record->broken.value_or(lost()));
    return false;
  }
  const std::shared_ptr<const gangway::Program> before = record->program;
  // Runs that failed before stay failed for those behind them.
  std::map<RunId, Error> failed = record->failed;
  const Result<void> installed = result_of(
      [&] { tables_.plans.install_again(*record, graph, tables_.names.holder(program.session)); });
  if (program.is_gone) return false;
  if (!installed.ok() && installed.error().kind() == ErrorKind::kCancelled)
    throw Error(installed.error());
  record = plan_of(program, plan);
  Executable& executable = program.executables.at(plan);
  failed.insert(record->failed.begin(), record->failed.end());  // Noted meanwhile.
  for (const HeldPtr& held : executable.runs) failed.erase(held->frame.run);
  for (const auto& [run, behind] : executable.dropped) failed.insert_or_assign(run, behind);
  record->failed = std::move(failed);
  executable.lacks_plan = !installed.ok() && installed.error().kind() != ErrorKind::kUnavailable;
  record->comes_with_next_run = executable.lacks_plan;
  if (installed.ok()) return true;
  record->program = before;
  fail_all(program, plan, installed.error());
  return false;
}

// The larger plan could not be installed, and none is. There may be room now for the last one.
void RunsAgain::install_last(Program& program, PlanId plan) {
  const Installing keeps_plan(program, plan);
  PlanRecord& record = *plan_of(program, plan);
  if (record.broken) {
    install(program, plan, std::shared_ptr<const gangway::Program>(record.program));
  } else {  // Recovery has installed it.
    program.executables.at(plan).lacks_plan = record.comes_with_next_run = false;
  }
}

void RunsAgain::submit_again(Program& program, PlanId plan) {
  Executable& executable = program.executables.at(plan);
  executable.overflowed = false;
  executable.dropped.clear();
  drop_outputs(program, plan);
  const std::deque<HeldPtr> runs = executable.runs;
  std::vector<ArrayId> unheld;
  for (const HeldPtr& held : runs) {
    held->ended.reset();
    for (const ArrayId array : held->frame.outputs) {
      if (!tables_.objects.give_up(array, program.session)) unheld.push_back(array);
    }
  }
  for (const HeldPtr& held : runs) {
    keep_arguments(program, held->frame, held->kept);
    callbacks_.submit(program.session, RunFrame(held->frame), {});
    held->open.reset();
  }
  keep_all_arguments(program);
  for (const ArrayId array : unheld) tables_.objects.client_drops(array, program.session);
  callbacks_.freed();
}

}  // namespace gangway
