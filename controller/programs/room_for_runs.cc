// The part of RunsAgain that suspends: the fiber of a program that compiles plans again with more
// room, runs their runs again, and then acts on what has waited.
#include <algorithm>
#include <utility>
#include <variant>

#include "controller/programs/more_room.h"
#include "controller/programs/run_path.h"
#include "controller/scheduler/run.h"

namespace gangway {

// The plan is not released while the program's fiber is at it.
class RunsAgain::Installing {
 public:
  Installing(Program& program, PlanId plan) : program_(program) { program.installing = plan; }
  ~Installing() { program_.installing = PlanId(); }
  Installing(const Installing&) = delete;

 private:
  Program& program_;
};

// Keeps none of the arrays that these runs are to make once more.
void RunsAgain::drop_outputs(Program& program, PlanId plan) {
  std::set<ArrayId> created;
  for (const HeldPtr& held : program.executables.at(plan).runs)
    created.insert(held->frame.outputs.begin(), held->frame.outputs.end());
  for_each_run(program, [&](const RunFrame&, std::vector<ArrayId>& kept) {
    std::erase_if(kept, [&](ArrayId array) {
      if (created.contains(array)) tables_.objects.drop(array);
      return created.contains(array);
    });
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
    if (program.is_gone || is_ending_) return;
    if (!worked.ok()) {
      std::vector<PlanId> overflowed;
      for (const auto& [plan, executable] : program.executables) {
        if (executable.overflowed) overflowed.push_back(plan);
      }
      if (overflowed.empty()) break;
      for (const PlanId plan : overflowed) fail_all(program, plan, worked.error());
    } else if (!worked.value()) {
      break;
    }
  }
  program.is_at_work = false;
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
  const PlanId plan = plan_needed_by(program.waiting.front().message);
  if (lacks_plan(program, plan)) {
    install_last(program, plan);
    // Another message may be the first one by now.
    if (program.is_gone || program.waiting.empty() ||
        plan_needed_by(program.waiting.front().message) != plan ||
        depends_on_a_run(program, program.waiting.front().message))
      return true;
  }
  act_on_first(program);
  return true;
}

// Acts on the first message that waits.
void RunsAgain::act_on_first(Program& program) {
  Waiting first = std::move(program.waiting.front());
  program.waiting.pop_front();
  const std::vector<ArrayId> created = created_by(first.message);
  for (const ArrayId array : created) program.to_be_created.erase(array);
  if (auto* run = std::get_if<RunFrame>(&first.message)) {
    if (lacks_plan(program, run->plan)) {  // The run table refuses the run.
      PlanRecord& record = *plan_of(program, run->plan);
      note_failed(record, run->run, not_committed(record, *record.broken));
    }
    if (!first.refused) track(program, *run, first.since_ns);
    path_.submit_to_table(program.session, std::move(*run), first.refused, first.since_ns);
    keep_created(program, created);
  } else if (auto* transfer = std::get_if<HostTransferFrame>(&first.message)) {
    path_.start_transfer(program.session, std::move(*transfer));
    keep_created(program, created);
  } else {
    for (const ArrayId array : std::get<FreeFrame>(first.message).arrays)
      tables_.objects.client_drops(array, program.session);
  }
  drop_kept(first.kept);
  path_.freed();
}

// Keeps these arrays, which are there now, for the runs that take them.
void RunsAgain::keep_created(Program& program, const std::vector<ArrayId>& created) {
  if (created.empty()) return;
  for_each_run(program, [&](const RunFrame& run, std::vector<ArrayId>& kept) {
    const bool takes = std::ranges::any_of(run.arguments, [&](const ArgumentFrame& argument) {
      return argument.bytes.empty() && std::ranges::find(created, argument.array) != created.end();
    });
    if (takes) keep_arguments(program, run, kept);
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
  live_.warn(program.session, more->warning);
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
  const std::shared_ptr<void> may_compile = live_.wait_to_compile(program.session);
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
  // If it can't be installed now, unless a lost host is the reason: then it comes back with
  // recovery, or not at all.
  record->comes_with_next_run = true;
  const Result<void> installed = result_of(
      [&] { tables_.plans.install_again(*record, graph, tables_.names.holder(program.session)); });
  if (program.is_gone || is_ending_) return false;
  record = plan_of(program, plan);
  Executable& executable = program.executables.at(plan);
  failed.insert(record->failed.begin(), record->failed.end());  // Noted meanwhile.
  for (const HeldPtr& held : executable.runs) failed.erase(held->frame.run);
  for (const auto& [run, behind] : executable.dropped) failed.insert_or_assign(run, behind);
  record->failed = std::move(failed);
  if (installed.ok()) return true;
  record->program = before;
  fail_all(program, plan, installed.error());
  return false;
}

// The larger plan could not be installed, and none is. There may be room now for the last one.
void RunsAgain::install_last(Program& program, PlanId plan) {
  const Installing keeps_plan(program, plan);
  const std::shared_ptr<const gangway::Program> last = plan_of(program, plan)->program;
  install(program, plan, last);
}

void RunsAgain::submit_again(Program& program, PlanId plan) {
  Executable& executable = program.executables.at(plan);
  executable.overflowed = false;
  executable.dropped.clear();
  drop_outputs(program, plan);
  const std::deque<HeldPtr> runs = executable.runs;
  std::vector<ArrayId> created, unheld;
  for (const HeldPtr& held : runs) {
    held->ended.reset();
    for (const ArrayId array : held->frame.outputs) {
      created.push_back(array);
      if (!tables_.objects.give_up(array, program.session)) unheld.push_back(array);
    }
  }
  for (const HeldPtr& held : runs) {
    keep_arguments(program, held->frame, held->kept);
    path_.submit_to_table(program.session, RunFrame(held->frame), {}, held->since_ns);
    held->open.reset();
  }
  keep_created(program, created);
  for (const ArrayId array : unheld) tables_.objects.client_drops(array, program.session);
  path_.freed();
}

}  // namespace gangway
