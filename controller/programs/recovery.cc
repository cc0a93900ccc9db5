#include "controller/programs/recovery.h"

#include <algorithm>

#include "controller/programs/run_path.h"

namespace gangway {
namespace {

// Only these count: the client's credits bound its runs and host transfers.
size_t names_in(const Message& message) {
  if (const auto* freed = std::get_if<FreeFrame>(&message)) return freed->arrays.size();
  if (const auto* released = std::get_if<ReleaseFrame>(&message)) return released->calls.size();
  return 0;
}

}  // namespace

Recovery::ProgramPtr Recovery::program_of(SessionId session) const {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : found->second;
}

void Recovery::submit(SessionId session, RunFrame&& frame, const std::optional<Error>& refused) {
  if (!programs_.empty() && !refused) log(session, frame);
  path_.submit_to_runs_again(session, std::move(frame), refused);
}

StateVersion Recovery::reached(const Program& program) const {
  const SliceRecord* const slice = tables_.slices.find(program.slice);
  return StateVersion(slice->version->value + slice->runs->open);
}

void Recovery::keep(SessionId session, SliceId slice, StateVersion base) {
  const SliceRecord* const record = tables_.slices.find(slice);
  if (record == nullptr || programs_.contains(session)) return;
  const auto program = std::make_shared<Program>();
  program->session = session;
  program->slice = slice;
  program->log =
      RunLog(tables_.owner_use.hold(tables_.names.owner(session), OwnerResource::kMemory), base);
  programs_[session] = program;
  const StateVersion now = reached(*program);
  if (record->was_written) {
    program->log.spoil(now.next(), "its client has written states, and no checkpoint holds them");
  } else if (now != base) {
    program->log.spoil(now, "runs came before it kept checkpoints, and no checkpoint holds them");
  }
}

// Runs on other slices are not logged.
void Recovery::log(SessionId session, const RunFrame& frame) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return;
  const PlanRecord* const plan = tables_.plans.find(frame.plan, session);
  if (plan == nullptr || plan->scope != program->slice.value) return;
  if (program->log.find(frame.run) != nullptr) return;
  if (program->log.add(frame)) {
    program->log.find(frame.run)->is_under_way = true;
    return;
  }
  program->log.clear();
  program->log.spoil(reached(*program).next(),
                     cat("it has run more since the newest checkpoint than can be kept: "
                         "expected at most ",
                         RunLog::kRunsMax, " runs, of ", RunLog::kBytesMax,
                         " bytes, within its owner's part of the controller's memory"));
}

bool Recovery::run_ended(SessionId session, const RunDoneFrame& done) {
  const ProgramPtr program = program_of(session);
  RunLog::Entry* const entry = program == nullptr ? nullptr : program->log.find(done.run);
  if (entry == nullptr) return true;
  const PlanRecord* const plan = tables_.plans.find(entry->frame.plan, session);
  entry->is_under_way = false;
  // The slice's version counts this run only after this call.
  if (!done.error && plan != nullptr && plan->has_commit)
    entry->version = tables_.slices.find(program->slice)->version->next();
  const bool is_reported = std::exchange(entry->is_reported, entry->is_reported || !done.error);
  if (program->phase == Phase::kMoves || program->was_hit) {
    if (!done.error || is_reported) return !is_reported;
    if (!entry->is_cancelled) return false;
    const RunId run = done.run;
    const Error why = *done.error;
    program->log.remove(run);
    drop_chain(*program, run, why);
    return true;
  }
  if (is_reported) {
    program->again.erase(done.run);
    if (done.error && !program->broke) program->broke = done.error;
    if (program->again.empty()) changed_.wake_all();
    return false;
  }
  if (!done.error) return true;
  if (done.error->kind() == ErrorKind::kUnavailable) {
    program->log.spoil(reached(*program).next(),
                       "a run was given up that may have committed, and no checkpoint is newer");
  }
  program->log.remove(done.run);
  return true;
}

void Recovery::transfer_begins(SessionId session, const HostTransferFrame& frame) {
  if (frame.kind == HostTransferKind::kWriteState) {
    if (SliceRecord* const slice = tables_.slices.find(SliceId(frame.scope.id)))
      slice->was_written = slice->owner == session || slice->was_written;
  }
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return;
  if (frame.kind == HostTransferKind::kWriteState && frame.scope.id == program->slice.value) {
    program->log.spoil(reached(*program).next(),
                       "its client has written states, and no checkpoint holds them");
  }
}

bool Recovery::knows(SessionId session, RunId run) const {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return false;
  return program->log.find(run) != nullptr ||
         std::ranges::any_of(program->inbox, [&](const Message& message) {
           const auto* waiting = std::get_if<RunFrame>(&message);
           return waiting != nullptr && waiting->run == run;
         });
}

bool Recovery::moves(SessionId session) const {
  const ProgramPtr program = program_of(session);
  return program != nullptr && program->phase != Phase::kRuns;
}

void Recovery::defer(SessionId session, Message message) {
  const ProgramPtr program = program_of(session);
  const size_t added = 1 + names_in(message);
  GW_REQUIRE(program->deferred + added <= kDeferredMax,
             "frame: a client sent too much while its program is brought back: expected at most ",
             kDeferredMax, " messages and names in them, got ", program->deferred + added);
  program->deferred += added;
  program->inbox.push_back(std::move(message));
}

void Recovery::defer_step(SessionId session, RunFrame run) {
  const ProgramPtr program = program_of(session);
  FreeFrame freed{run.outputs};
  program->inbox.emplace_back(std::move(run));
  program->inbox.emplace_back(std::move(freed));
}

void Recovery::take_over(SessionId session, Message&& message) {
  program_of(session)->inbox.push_back(std::move(message));
}

bool Recovery::runs_again(SessionId session, RunId run) const {
  const ProgramPtr program = program_of(session);
  return program != nullptr && (program->phase == Phase::kMoves || program->was_hit) &&
         program->log.find(run) != nullptr;
}

bool Recovery::cancel(SessionId session, RunId run, const Error& why) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr || program->phase == Phase::kRuns) return false;
  if (RunLog::Entry* const entry = program->log.find(run)) {
    if (entry->is_reported) return true;
    entry->is_cancelled = true;
    if (entry->is_under_way) return false;
  }
  const auto is_it = [&](const Message& message) {
    const auto* waiting = std::get_if<RunFrame>(&message);
    return waiting != nullptr && waiting->run == run;
  };
  const size_t known = program->log.entries().size() + program->inbox.size();
  program->log.remove(run);
  std::erase_if(program->inbox, is_it);
  if (program->log.entries().size() + program->inbox.size() == known) return false;
  live_.run_ended(session, {.run = run, .error = why});
  drop_chain(*program, run, why);
  return true;
}

// Ends the runs that depend on one that was not run, since they can't commit either.
void Recovery::drop_chain(Program& program, RunId first, const Error& why) {
  std::set<RunId> failed{first};
  std::vector<std::pair<RunId, PlanId>> dropped;
  for (const RunLog::Entry& entry : program.log.entries()) {
    if (entry.is_reported || entry.is_under_way || !failed.contains(entry.frame.after)) continue;
    failed.insert(entry.frame.run);
    dropped.emplace_back(entry.frame.run, entry.frame.plan);
  }
  for (const auto& [run, plan] : dropped) program.log.remove(run);
  std::erase_if(program.inbox, [&](const Message& message) {
    const auto* waiting = std::get_if<RunFrame>(&message);
    if (waiting == nullptr || !failed.contains(waiting->after)) return false;
    failed.insert(waiting->run);
    dropped.emplace_back(waiting->run, waiting->plan);
    return true;
  });
  for (const auto& [run, id] : dropped) {
    const PlanRecord* const plan = tables_.plans.find(id, program.session);
    live_.run_ended(
        program.session,
        {.run = run,
         .error = plan == nullptr || plan->plan == nullptr ? why : not_committed(*plan, why)});
  }
}

// Nobody holds any arrays any more, but runs that wait take some. Nobody waits for what hosts would
// send.
std::set<ArrayId> Recovery::detached(SessionId session) {
  const ProgramPtr program = program_of(session);
  if (program == nullptr) return {};
  std::erase_if(program->inbox, [](const Message& message) {
    const auto* transfer = std::get_if<HostTransferFrame>(&message);
    return transfer != nullptr && (transfer->kind == HostTransferKind::kGet ||
                                   transfer->kind == HostTransferKind::kReadState);
  });
  std::set<ArrayId> taken, freed;
  for (const Message& message : program->inbox) {
    const auto* transfer = std::get_if<HostTransferFrame>(&message);
    if (transfer != nullptr && transfer->kind == HostTransferKind::kPut)
      freed.insert(transfer->array);
    const auto* run = std::get_if<RunFrame>(&message);
    if (run == nullptr) continue;
    freed.insert(run->outputs.begin(), run->outputs.end());
    for (const ArgumentFrame& argument : run->arguments) {
      if (argument.bytes.empty()) taken.insert(argument.array);
    }
  }
  std::erase_if(program->held, [&](ArrayId array) { return !taken.contains(array); });
  freed.insert(taken.begin(), taken.end());
  if (!freed.empty()) program->inbox.emplace_back(FreeFrame{{freed.begin(), freed.end()}});
  return taken;
}

void Recovery::are_held(SessionId session, const std::vector<ArrayId>& arrays) {
  if (const ProgramPtr program = program_of(session))
    program->held.insert(arrays.begin(), arrays.end());
}

void Recovery::wait_until_back(SessionId session, const StopToken& asker) {
  while (is_moving(session)) wait(changed_, "for a program that lost a host", asker);
}

std::string Recovery::waits_for(SessionId session) const {
  const ProgramPtr program = program_of(session);
  if (program == nullptr || program->waits_for == 0) return {};
  return cat(program->waits_for, " devices, since ", program->lost, " was lost");
}

void Recovery::note_written(Program& program, StateVersion version) {
  const SessionId session = program.session;
  for (const RunId run : program.log.written(version)) {
    live_.run_ended(session, {.run = run,
                              .error = Error(ErrorKind::kUnavailable,
                                             "a host was lost that had part of the run, and the "
                                             "states that it read are past: enqueue it again")});
  }
}

void Recovery::checkpoint_written(SliceId slice, StateVersion version) {
  for (const auto& [session, program] : programs_) {
    if (program->slice != slice) continue;
    if (program->phase == Phase::kRuns) {
      note_written(*program, version);
    } else {
      program->written = version;
    }
  }
}

void Recovery::session_closed(SessionId session) {
  const auto found = programs_.find(session);
  if (found == programs_.end()) return;
  found->second->is_gone = true;
  found->second->room.wake_all();
  programs_.erase(found);
  changed_.wake_all();
}

void Recovery::slice_gone(SliceId slice) {
  const auto found = std::ranges::find_if(
      programs_, [&](const auto& item) { return item.second->slice == slice; });
  if (found != programs_.end()) session_closed(found->first);
}

}  // namespace gangway
