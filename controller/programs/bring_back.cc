// The part of Recovery that brings back a program which lost a host.
#include <algorithm>

#include "controller/programs/elastic.h"
#include "controller/programs/run_path.h"

namespace gangway {
namespace {

// A program is given up when this many tries have failed with errors as of a lost host.
constexpr int kTriesMax = 5;
// A program that has found no room is installed again after kTryAgainFirstNs, then after longer
// times. It looks each kLookAgainNs whether there is room, since nothing wakes it when a quota has
// some.
constexpr int64_t kTryAgainFirstNs = 10'000'000, kTryAgainMaxNs = 10'000'000'000;
constexpr int64_t kLookAgainNs = 1'000'000'000;

Error cannot(const std::string& why) {
  return {ErrorKind::kUnavailable,
          cat("recovery: the program can't be brought back: ", why),
          {},
          "allocate a new slice, compile again, and restore state from a checkpoint"};
}

// Whether this host, which could not install a program, may have room for it later.
bool lacks_room(const std::pair<const HostId, Error>& refusal) {
  return refusal.second.kind() == ErrorKind::kOverloaded;
}

// Whether a part of a state that is named in the slice lay on a host that is lost.
bool has_lost_states(const SliceRecord& slice, HostTable& hosts) {
  const auto is_lost = [&](HostId id) {
    const HostRecord* const host = hosts.find(id);
    return host == nullptr || host->lost.has_value();
  };
  return std::ranges::any_of(slice.placed_states, [&](const auto& state) {
    return std::ranges::any_of(state.second.layout->holders, is_lost);
  });
}

// The index of this slice among those of the plan.
std::optional<uint32_t> index_of(const PlanRecord& plan, SliceId slice) {
  const auto at = std::ranges::find(plan.slices, slice);
  if (at == plan.slices.end()) return std::nullopt;
  return static_cast<uint32_t>(at - plan.slices.begin());
}

}  // namespace

// Plans whose states are named in the program's slice, the oldest first.
std::vector<PlanRecord*> Recovery::plans_of(const Program& program) const {
  std::vector<PlanRecord*> plans = tables_.plans.all_of(program.session);
  std::erase_if(plans, [&](const PlanRecord* plan) { return plan->scope != program.slice.value; });
  return plans;
}

bool Recovery::uses(const Program& program, HostId host) const {
  const std::vector<SliceId> slices = slices_of(program);
  return std::ranges::any_of(slices, [&](SliceId id) {
    return std::ranges::any_of(tables_.slices.find(id)->devices,
                               [&](const DeviceRef& device) { return device.host == host; });
  });
}

void Recovery::host_lost(HostId host) {
  std::vector<ProgramPtr> hit;
  const std::string name = cat("host \"", tables_.hosts.at(host).info.name, "\"");
  for (const auto& [session, program] : programs_) {
    if (uses(*program, host)) {
      hit.push_back(program);
    } else if (program->phase != Phase::kMoves) {
      // One that moves has its states placed where they were: try_once() loses them.
      lose_states_on(*program, host, name);
    }
  }
  for (const ProgramPtr& program : hit) {
    program->lost += cat(program->lost.empty() ? "" : ", ", name);
    if (program->phase == Phase::kRuns) {
      begin(program);
    } else {
      program->was_hit = true;
      program->room.wake_all();
      leaves(*program);
    }
  }
  look_again();
}

// Why the runs of the log can't be run again.
std::optional<std::string> Recovery::why_not(const Program& program) const {
  if (const auto why = program.log.why_not()) return why;
  for (const RunLog::Entry& entry : program.log.entries()) {
    const PlanRecord* const plan = tables_.plans.find(entry.frame.plan, program.session);
    if (plan == nullptr || plan->released)
      return "it has let go of an executable that has run since the newest checkpoint";
  }
  return std::nullopt;
}

// From now on nobody reads the program's states.
void Recovery::leaves(const Program& program) {
  SliceRecord& slice = *tables_.slices.find(program.slice);
  slice.is_moving = true;
  slice.comes_again = std::max(slice.comes_again, *slice.version);
  tables_.shared_states.slice_moves(program.slice);
  path_.runs_again().slice_moves(program.slice);
  checkpoints_.states_changed(program.slice);
}

void Recovery::begin(const ProgramPtr& program) {
  if (const auto why = why_not(*program)) {
    const Error error = cannot(*why);
    live_.warn(program->session, cat(program->lost, " was lost: ", error.message()));
    SliceRecord& slice = *tables_.slices.find(program->slice);
    session_closed(program->session);
    if (!has_lost_states(slice, tables_.hosts)) return;
    slice.given_up = error;
    // Reads that wait for its states are refused, too.
    tables_.shared_states.slice_is_back(program->slice);
    checkpoints_.slice_is_back(program->slice);
    return;
  }
  program->phase = Phase::kMoves;
  ++moving_;
  leaves(*program);
  live_.warn(program->session,
             cat(program->lost, " was lost: the program goes back to version ", program->log.base(),
                 ", and ", program->log.entries().size(), " runs since are run again"));
  fibers_.spawn("recovery", [this, program] { bring_back(program); });
}

void Recovery::bring_back(const ProgramPtr& program) {
  while (!program->is_gone) {
    program->phase = Phase::kMoves;  // Also where it was catching up.
    program->was_hit = false;
    const Result<bool> tried = result_of([&] { return try_once(*program); });
    if (program->is_gone || (tried.ok() && tried.value())) break;
    if (tried.ok() || program->was_hit) continue;
    if (tried.error().kind() == ErrorKind::kCancelled) return;  // The controller ends.
    if (tried.error().kind() != ErrorKind::kOverloaded) {
      give_up(*program, tried.error());
      break;
    }
    if (!std::exchange(program->has_said_that_it_lacks_room, true)) {
      live_.warn(program->session,
                 cat("the program that lost a host waits for room: ", tried.error().message()));
    }
    if (!result_of([&] { wait_for_room(*program); }).ok()) return;  // The controller ends.
  }
  end(*program);
}

// Suspends until the plans that could not be installed would fit, and at least for a pause, which
// grows: an installation keeps all hosts of the program busy, and it may be a host that refuses.
// The program holds no memory meanwhile, since another one may wait for it.
void Recovery::wait_for_room(Program& program) {
  while (!program.is_gone && !is_quiet(program))
    changed_.wait("for copies of a program that lost a host to end");
  if (program.is_gone) return;
  for (PlanRecord* plan : plans_of(program)) tables_.plans.take_down(*plan);
  tables_.slices.forget_states(program.slice);
  const int64_t pause_ns =
      std::clamp(2 * program.waited_for_room_ns, kTryAgainFirstNs, kTryAgainMaxNs);
  program.waited_for_room_ns = pause_ns;
  const int64_t not_before_ns = clock_.now_ns() + pause_ns;
  while (!program.is_gone && !program.was_hit) {
    const int64_t now_ns = clock_.now_ns();
    if (now_ns < not_before_ns) {
      program.room.wait_until_ns("before a program is installed again", not_before_ns);
      continue;
    }
    std::vector<const PlanRecord*> tried;
    for (const PlanId id : program.tried) {
      if (const PlanRecord* const plan = tables_.plans.find(id, program.session))
        tried.push_back(plan);
    }
    const PlanTable::Room room =
        tables_.plans.room_for(tried, tables_.names.holder(program.session));
    if (room.fits) return;
    const FreedMemory::Watch watch(tables_.hosts.freed().memory, room.sizes,
                                   [&program] { program.room.wake_all(); });
    program.room.wait_until_ns("for room for a program that lost a host", now_ns + kLookAgainNs);
  }
}

// Whether no run or copy of the program is on its way to devices, and nothing refers to the outputs
// of its runs.
bool Recovery::is_quiet(const Program& program) const {
  if (tables_.transfers.any_of_states(program.slice)) return false;
  const std::vector<PlanRecord*> plans = plans_of(program);
  if (std::ranges::any_of(plans, [](const PlanRecord* plan) { return plan->runs > 0; }))
    return false;
  return std::ranges::none_of(program.log.entries(), [&](const RunLog::Entry& entry) {
    return std::ranges::any_of(entry.frame.outputs,
                               [&](ArrayId array) { return tables_.objects.is_used(array); });
  });
}

// False: a host was lost or refused meanwhile, so try again; or the program has gone.
bool Recovery::try_once(Program& program) {
  while (!program.is_gone && (live_.is_suspended(program.session) || !is_quiet(program)))
    changed_.wait("for the runs of a program that lost a host to end");
  if (program.is_gone) return false;
  if (program.written) note_written(program, *std::exchange(program.written, std::nullopt));
  if (const auto why = why_not(program)) throw cannot(*why);
  SliceRecord& slice = *tables_.slices.find(program.slice);
  slice.is_moving = true;
  slice.comes_again = std::max(slice.comes_again, *slice.version);
  std::set<std::string> placed;  // States that can be placed again: those that an executable has.
  for (const PlanRecord* plan : plans_of(program)) {
    for (const PlanState& state : plan->plan->states)
      placed.insert(plan->plan->values[state.value].name);
  }
  lose_states(program, placed, program.lost);
  Programs programs;
  program.tried.clear();
  for (PlanRecord* plan : plans_of(program)) {
    programs[plan->id] = plan->program;
    if (const auto found = program.resized.find(plan->id); found != program.resized.end())
      programs[plan->id] = found->second;
    tables_.plans.take_down(*plan);  // Before its slices move, since these keep the hosts.
  }
  move_slices(program, programs);
  const auto is_over = [&] { return program.is_gone || program.was_hit; };
  for (const auto& [id, graph] : programs) {
    if (is_over()) return false;
    if (!install_again(program, id, graph)) return false;
  }
  if (is_over()) return false;
  if (!restore(program) || is_over()) return false;
  return run_again(program);
}

// False: a host could not install the plan, and others are to be tried.
bool Recovery::install_again(Program& program, PlanId id,
                             const std::shared_ptr<const gangway::Program>& graph) {
  PlanRecord* plan = tables_.plans.find(id, program.session);
  if (plan == nullptr || plan->released) return true;
  program.tried.push_back(id);
  const Result<void> installed = result_of(
      [&] { tables_.plans.install_again(*plan, graph, tables_.names.holder(program.session)); });
  if (installed.ok()) return true;
  const Error& why = installed.error();
  plan = tables_.plans.find(id, program.session);
  std::optional<HostId> by = plan == nullptr ? std::nullopt : plan->refused_by;
  // The program does not fit on this host. A host that had no room for it may have some earlier.
  if (!by && plan != nullptr && std::ranges::any_of(program.refusing, lacks_room))
    by = plan->short_of;
  if (!by) throw Error(why);
  const bool may_come = lacks_room(*program.refusing.insert_or_assign(*by, why).first);
  // While the program waits for room it is tried on the same hosts again and again: warn once.
  if (!may_come || !program.has_said_that_it_lacks_room)
    live_.warn(program.session,
               cat("the program that lost a host is tried on other hosts: ", why.message()));
  return false;
}

// False: the newest checkpoint is damaged, and the one before it is to be tried.
bool Recovery::restore(Program& program) {
  const StateVersion newest = program.log.base();
  const Result<void> restored = result_of([&] { checkpoints_.restore(program.slice, newest); });
  if (restored.ok()) return true;
  const Error& why = restored.error();
  if (why.kind() != ErrorKind::kInvalid || !program.log.step_back() || why_not(program))
    throw Error(why);
  live_.warn(program.session,
             cat("the checkpoint of version ", newest, " can't be restored: ", why.message(),
                 "; the program goes back to version ", program.log.base(), ", and ",
                 program.log.entries().size(), " runs since are run again"));
  return false;
}

std::vector<SliceId> Recovery::slices_of(const Program& program) const {
  std::set<SliceId> slices;
  for (const PlanRecord* plan : plans_of(program))
    slices.insert(plan->slices.begin(), plan->slices.end());
  return {slices.begin(), slices.end()};
}

// Whether some of the slice's devices belong to hosts that were lost, or that could not install the
// program.
bool Recovery::must_leave(const Program& program, const SliceRecord& slice) const {
  return slice.devices.empty() || std::ranges::any_of(slice.devices, [&](const DeviceRef& device) {
           const HostRecord* const host = tables_.hosts.find(device.host);
           return host == nullptr || host->lost.has_value() ||
                  program.refusing.contains(device.host);
         });
}

void Recovery::lose_states(const Program& program, const std::set<std::string>& all_but,
                           const std::string& host) {
  const std::vector<std::string> names = tables_.slices.lose_states(program.slice, all_but);
  if (names.empty()) return;
  checkpoints_.states_changed(program.slice);
  live_.warn(program.session, goes_on_without(names, cat(host, " was lost")));
}

// A host was lost that has none of the program's slices. It may have had states of executables that
// were released, and these are lost.
void Recovery::lose_states_on(const Program& program, HostId host, const std::string& name) {
  std::set<std::string> elsewhere;
  for (const auto& [state, placed] : tables_.slices.find(program.slice)->placed_states) {
    if (std::ranges::find(placed.layout->holders, host) == placed.layout->holders.end())
      elsewhere.insert(state);
  }
  lose_states(program, elsewhere, name);
}

std::set<DeviceRef> Recovery::avoided(const Program& program) const {
  std::set<DeviceRef> avoided;
  for (const auto& [id, why] : program.refusing) {
    const HostRecord* const host = tables_.hosts.find(id);
    for (uint32_t d = 0; host != nullptr && d < host->info.devices; ++d) avoided.insert({id, d});
  }
  return avoided;
}

// Suspends until all of the program's slices have devices.
void Recovery::move_slices(Program& program, Programs& programs) {
  tables_.slices.forget_states(program.slice);
  while (!program.is_gone) {
    std::vector<SliceId> lost = slices_of(program);
    std::erase_if(lost, [&](SliceId id) { return !must_leave(program, *tables_.slices.find(id)); });
    std::map<SliceId, SliceShape> shapes;
    for (SliceId id : lost) {
      tables_.slices.vacate(id);
      shapes.emplace(id, tables_.slices.find(id)->shape);
    }
    program.waits_for = 0;
    Programs placed = programs;
    const std::map<std::string, int64_t> shrunk = program.shrunk;
    for (SliceId id : lost) {
      if (place(program, id, placed)) continue;
      program.waits_for = tables_.slices.find(id)->shape.physical();
      break;
    }
    if (program.waits_for == 0) {
      program.resized = programs = std::move(placed);
      return;
    }
    // Slices that have shrunk in vain get their shapes back.
    program.shrunk = shrunk;
    for (const auto& [id, shape] : shapes) {
      tables_.slices.undo_occupy(id);
      tables_.slices.find(id)->shape = shape;
    }
    throw_if_refused(program);
    const SliceShape shape = shapes.at(lost.front());
    if (!std::exchange(program.has_said_that_it_waits, true)) {
      live_.warn(program.session, cat("the program waits for ", program.waits_for,
                                      " devices: ", tables_.slices.in_the_way(shape)));
    }
    Freed& freed = tables_.hosts.freed();
    std::set<int64_t> memory;
    if (shape.memory_bytes > 0) memory.insert(shape.memory_bytes);
    const FreedMemory::Watch watch(freed.memory, memory, [&freed] { freed.waiting.wake_all(); });
    freed.waiting.wait("for devices of a program that lost a host");
  }
}

// Called when the only devices left are on hosts that could not install the program. A host that
// had no room for it may have some later, and is tried again then.
void Recovery::throw_if_refused(Program& program) {
  const auto full = std::ranges::find_if(program.refusing, lacks_room);
  if (full != program.refusing.end()) {
    const Error why = full->second;
    std::erase_if(program.refusing, lacks_room);
    program.waits_for = 0;  // It waits for memory.
    throw Error(why);
  }
  if (!program.refusing.empty()) throw cannot(program.refusing.begin()->second.message());
}

// Finds devices for a slice, in its old shape or smaller along elastic axes. False: there are none.
bool Recovery::place(Program& program, SliceId id, Programs& programs) {
  const SliceRecord& slice = *tables_.slices.find(id);
  std::map<PlanId, ProgramOnSlice> on;
  for (const PlanRecord* plan : plans_of(program)) {
    const auto index = index_of(*plan, id);
    if (index && programs.contains(plan->id)) on[plan->id] = {programs.at(plan->id), *index};
  }
  std::vector<ProgramOnSlice> all;
  for (const auto& [plan, one] : on) all.push_back(one);
  Shrinking shrinking(std::move(all), slice.shape,
                      tables_.slices.find(program.slice)->recovery->elastic);
  const std::set<DeviceRef> without = avoided(program);
  std::vector<DeviceRef> devices = tables_.slices.find_place(shrinking.shape(), without);
  while (devices.empty() && shrinking.next())
    devices = tables_.slices.find_place(shrinking.shape(), without);
  if (devices.empty()) return false;
  for (const auto& [plan, one] : on) programs[plan] = shrinking.shrunk(one);
  for (const auto& [axis, size] : shrinking.sizes()) program.shrunk[axis] = size;
  tables_.slices.occupy(id, shrinking.shape(), std::move(devices));
  return true;
}

// Suspends until all reported runs that were submitted again have ended. False: the program has
// gone, or the recovery begins anew.
bool Recovery::wait_for_reports(Program& program) {
  const auto is_over = [&] { return program.is_gone || program.was_hit; };
  while (!is_over() && !program.again.empty())
    changed_.wait("for runs that are run again after a host was lost");
  if (is_over()) return false;
  if (program.broke) {
    // A host may be gone whose loss is not known yet.
    const bool is_host = program.broke->kind() == ErrorKind::kUnavailable;
    if (is_host && ++program.tries < kTriesMax) return false;
    throw cannot(
        cat("a run that had ended well did not when it was run again: ", program.broke->message()));
  }
  return true;
}

// Returns the outputs that nobody holds.
std::vector<ArrayId> Recovery::submit_again(Program& program, RunLog::Entry& entry) {
  RunFrame frame = entry.frame;
  entry.is_under_way = true;
  if (entry.is_reported) {
    frame.time_limit_ms = 0;
    program.again.insert(frame.run);
  }
  std::vector<ArrayId> outputs = frame.outputs;
  path_.submit_to_runs_again(program.session, std::move(frame), {});
  std::erase_if(outputs, [&](ArrayId array) { return program.held.erase(array) > 0; });
  return outputs;
}

// `last_taker`: for each argument, the index of the last run that takes it. An output that nobody
// holds is freed behind that run; those that are not yet are in `unheld`. False: as run_again().
bool Recovery::submit_all_again(Program& program, const std::vector<RunId>& runs,
                                std::map<ArrayId, size_t> last_taker, std::set<ArrayId>& unheld) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunLog::Entry* const entry = program.log.find(runs[i]);
    if (entry != nullptr && !entry->is_reported && !wait_for_reports(program)) return false;
    // The run may have been cancelled meanwhile, or dropped since one before it has failed.
    if (RunLog::Entry* const there = program.log.find(runs[i])) {
      for (const ArrayId array : submit_again(program, *there)) {
        unheld.insert(array);
        last_taker.try_emplace(array, i);
      }
    }
    std::erase_if(unheld, [&](ArrayId array) {
      if (last_taker.at(array) > i) return false;
      path_.runs_again().free(program.session, {array});
      return true;
    });
  }
  return true;
}

// False: the program has gone, or the recovery begins anew.
bool Recovery::run_again(Program& program) {
  program.phase = Phase::kCatchesUp;
  tables_.slices.find(program.slice)->is_moving = false;
  tables_.shared_states.slice_is_back(program.slice);
  program.again.clear();
  program.broke.reset();
  std::vector<RunId> runs;
  std::map<ArrayId, size_t> last_taker;
  for (const RunLog::Entry& entry : program.log.entries()) {
    for (const ArgumentFrame& argument : entry.frame.arguments) {
      if (argument.bytes.empty()) last_taker[argument.array] = runs.size();
    }
    runs.push_back(entry.frame.run);
    for (ArrayId array : entry.frame.outputs) {
      if (tables_.objects.give_up(array, program.session)) program.held.insert(array);
    }
  }
  std::set<ArrayId> unheld;
  const Result<bool> submitted =
      result_of([&] { return submit_all_again(program, runs, std::move(last_taker), unheld); });
  for (const ArrayId array : unheld) {
    program.held.erase(array);  // RunsAgain may have given back the run that makes it.
    path_.runs_again().free(program.session, {array});
  }
  if (!submitted.ok()) throw Error(submitted.error());
  return submitted.value() && wait_for_reports(program);
}

std::string Recovery::hosts_of(const Program& program) const {
  std::set<std::string> names;
  for (const PlanRecord* plan : plans_of(program)) {
    for (HostId host : plan->hosts) names.insert(tables_.hosts.at(host).info.name);
  }
  std::string text;
  for (const std::string& name : names) text += cat(text.empty() ? "" : ", ", name);
  return text;
}

// The program goes on, or has gone or was given up.
void Recovery::end(Program& program) {
  --moving_;
  program.phase = Phase::kRuns;
  program.was_hit = program.has_said_that_it_waits = program.has_said_that_it_lacks_room = false;
  program.waited_for_room_ns = 0;
  program.waits_for = 0;
  program.again.clear();
  program.resized.clear();
  program.held.clear();
  program.tries = 0;
  program.refusing.clear();
  changed_.wake_all();
  if (SliceRecord* const slice = tables_.slices.find(program.slice)) {
    slice->is_moving = false;
    slice->comes_again = StateVersion();
    tables_.shared_states.slice_is_back(program.slice);
    checkpoints_.slice_is_back(program.slice);
  }
  if (program.written) note_written(program, *std::exchange(program.written, std::nullopt));
  if (program_of(program.session).get() == &program) {
    std::string shrunk;
    for (const auto& [axis, size] : std::exchange(program.shrunk, {}))
      shrunk += cat(shrunk.empty() ? "" : ", ", axis, " = ", size);
    live_.warn(program.session,
               cat(std::exchange(program.lost, {}), " was lost: the program goes on on ",
                   hosts_of(program), shrunk.empty() ? "" : ", with ", shrunk));
  }
  program.deferred = 0;
  while (!program.inbox.empty()) {
    Message next = std::move(program.inbox.front());
    program.inbox.pop_front();
    path_.act_on_deferred(program.session, std::move(next));
  }
}

void Recovery::give_up(Program& program, const Error& error) {
  const Error why = error.kind() == ErrorKind::kUnavailable ? error : cannot(error.message());
  live_.warn(program.session, cat(program.lost, " was lost: ", why.message()));
  for (PlanRecord* plan : plans_of(program)) tables_.plans.give_up(*plan, why);
  // The states may be first values, or those of any version since the checkpoint.
  if (SliceRecord* const slice = tables_.slices.find(program.slice)) slice->given_up = why;
  std::vector<RunId> failed;
  for (const RunLog::Entry& entry : program.log.entries()) {
    if (!entry.is_reported && !entry.is_under_way) failed.push_back(entry.frame.run);
  }
  session_closed(program.session);  // Its runs are not logged any more.
  for (RunId run : failed) live_.run_ended(program.session, {.run = run, .error = why});
}

}  // namespace gangway
