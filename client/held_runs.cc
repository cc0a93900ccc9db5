#include "client/held_runs.h"

#include <algorithm>
#include <utility>

#include "client/failed_runs.h"
#include "ir/plan/rows_overflow.h"
#include "ir/wire/wire.h"

namespace gangway::internal {
namespace {

// Options without progress: compile(), during which the user wants reports, has returned.
CompileOptions unwatched(CompileOptions options) {
  options.on_progress = nullptr;
  return options;
}

Error cancelled(const std::string& program) {
  return {ErrorKind::kCancelled, cat("run of \"", program, "\": cancelled"), {.program = program}};
}

// Warns the user of a program that had too little room and has been compiled again.
std::string warning(const Program& program) {
  std::string bounds;
  for (const RowsBound& was : rows_bounds(program)) {
    bounds += cat(bounds.empty() ? "" : ", ", "bound ", was.bound, " became ",
                  with_more_room(was.bound), was.at.empty() ? "" : " at ", was.at);
  }
  return cat("program \"", program.name, "\": more rows came to a device's experts than it has ",
             "room for, so it was compiled again, and its runs are run again: ", bounds);
}

// The controller says the same of runs that it knows of.
Error not_committed(const std::string& program, const Error& why) {
  return {ErrorKind::kCancelled,
          cat("run of \"", program,
              "\": nothing was committed, since the run before it did not commit: ", why.message()),
          {.program = program},
          "handle the error of that run, then run again"};
}

}  // namespace

HeldRuns::HeldRuns(const std::shared_ptr<ExecutableImpl>& executable, CompileOptions options)
    : executable_(executable),
      notify_(executable->client->notify),
      options_(unwatched(std::move(options))),
      name_(executable->program.name),
      states_(states_of(executable->program)),
      commits_(executable->updated != nullptr),
      program_(executable->program) {}

std::shared_ptr<RunImpl> HeldRuns::run(const std::shared_ptr<ExecutableImpl>& executable,
                                       const std::vector<Argument>& arguments,
                                       const RunOptions& options) {
  const std::shared_ptr<RunImpl> run = new_run(executable);
  run->outcome->held = weak_from_this();
  const auto held = std::make_shared<Held>();
  held->arguments = arguments;
  held->time_limit_ms = options.time_limit_ms;
  held->outcome = run->outcome;
  held->outputs.assign(run->outputs.begin(), run->outputs.end());
  while (true) {
    drop_ended();
    run_again(*executable);
    require_plan(*executable);
    const PlanId plan = plan_of(*executable);
    Bound bound = bind_all(*executable, plan, arguments);
    const bool is_only_one = take_place(*executable);
    const std::lock_guard enqueueing(executable->enqueueing);
    if (enter(*executable, held, plan)) {
      if (run->outcome->done) {
        give_back_place(*executable);
      } else {
        send(*executable, held, std::move(bound), is_only_one);
      }
      return run;
    }
    // The run comes behind those that are sent again, with arguments placed for the new plan.
    give_back_place(*executable);
  }
}

PlanId HeldRuns::plan_of(ExecutableImpl& executable) {
  const std::lock_guard lock(notify_.mutex);
  return executable.plan.plan;
}

// The larger program could not be compiled, and no plan is installed. There may be memory now for
// the last program.
void HeldRuns::require_plan(ExecutableImpl& executable) {
  if (!claim([&] { return executable.plan.plan == PlanId(); })) return;
  const Result<void> compiled = result_of([&] { compile(executable, program_); });
  notify_.change([&] { is_at_it_ = false; });
  compiled.value();
}

// Returns false if the runs before it are to be sent again first, or if the plan has changed. With
// `enqueueing` held.
bool HeldRuns::enter(ExecutableImpl& executable, const HeldPtr& held, PlanId plan) {
  const std::lock_guard lock(notify_.mutex);
  if (is_at_it_ || has_work() || plan == PlanId() || executable.plan.plan != plan) return false;
  held->position = executable.position++;
  // Set here, so that a run before it that fails from now on finds it behind.
  if (executable.chain->told) begin_chain(executable);
  held->outcome->chain = executable.chain;
  if (executable.chain->broken) {
    end(*held->outcome, {.error = executable.chain->broken});
    return true;
  }
  runs_.push_back(held);
  begin_sending(*held);
  return true;
}

void HeldRuns::begin_sending(Held& held) {
  held.in_flight = true;
  held.number = ++sendings_;
}

// With `enqueueing` held, and a place taken.
void HeldRuns::send(ExecutableImpl& executable, const HeldPtr& held, Bound bound,
                    bool is_only_one) {
  std::vector<std::shared_ptr<ArrayImpl>> outputs;
  for (const auto& output : held->outputs) outputs.push_back(output.lock());
  for (auto& output : outputs) {  // Results that nobody holds are released below.
    if (output != nullptr) continue;
    output = std::make_shared<ArrayImpl>();
    output->client = executable.client;
    output->outcome = held->outcome;
  }
  const auto end_of = [self = weak_from_this(), number = held->number,
                       outcome = held->outcome](RunDoneFrame done) {
    const std::shared_ptr<HeldRuns> runs = self.lock();
    // Otherwise it was given up.
    if (runs == nullptr || !runs->note_end(number, done)) end(*outcome, std::move(done));
  };
  send_one(executable, *held->outcome, outputs, std::move(bound),
           {.time_limit_ms = held->time_limit_ms, .position = held->position}, is_only_one, end_of);
  RunId id;
  {
    const std::lock_guard lock(notify_.mutex);
    if (!held->outcome->cancelled) return;
    id = held->outcome->run;
  }
  // The user who cancelled it may have known only the name that it had before.
  executable.client->post(
      [id, why = cancelled(name_)](Session& session) { session.cancel(id, why); });
}

// Whether the first run is neither in flight nor ended for good, or the last was not sent again.
bool HeldRuns::has_work() const {
  if (runs_.empty()) return false;
  return !runs_.front()->in_flight || (!runs_.back()->in_flight && !runs_.back()->ended);
}

// Returns false if it is none of these runs any more.
bool HeldRuns::note_end(uint64_t number, RunDoneFrame& done) {
  const auto at = std::ranges::find_if(
      runs_, [&](const HeldPtr& held) { return held->in_flight && held->number == number; });
  if (at == runs_.end()) return false;
  (*at)->in_flight = false;
  (*at)->ended = std::move(done);
  settle();
  return true;
}

// Ends runs in the order of the chain. Nobody is told of the ends behind an overflow.
void HeldRuns::settle() {
  while (!runs_.empty() && runs_.front()->ended) {
    Held& first = *runs_.front();
    std::optional<Error>& error = first.ended->error;
    if (error && error->kind() == ErrorKind::kOverflow) {
      if (!first.is_behind) return;
      error = first.outcome->chain->broken;
    } else if (error) {
      break_chain(0, *error);
    }
    end_at(0, std::move(*first.ended));
  }
}

void HeldRuns::end_at(size_t place, RunDoneFrame done) {
  const auto at = runs_.begin() + static_cast<std::ptrdiff_t>(place);
  const HeldPtr held = std::move(*at);
  runs_.erase(at);
  ended_.push_back(held);
  end(*held->outcome, std::move(done));
}

// The run at this place failed.
void HeldRuns::break_chain(size_t place, const Error& why) {
  const std::shared_ptr<Chain> chain = runs_[place]->outcome->chain;
  if (!commits_ || chain->broken) return;
  chain->broken = not_committed(name_, why);
  for (size_t behind = place + 1; behind < runs_.size(); ++behind)
    runs_[behind]->is_behind = runs_[behind]->outcome->chain == chain;
}

// Ends those of the runs to be sent again that were cancelled, or are behind a failed one.
void HeldRuns::end_cancelled() {
  for (size_t place = 0; place < runs_.size();) {
    const Held& held = *runs_[place];
    if (held.is_behind) {
      end_at(place, {.error = held.outcome->chain->broken});
    } else if (held.outcome->cancelled) {
      const Error error = cancelled(name_);
      break_chain(place, error);
      end_at(place, {.error = error});
    } else {
      ++place;
    }
  }
}

// Waits until nobody is at the work. Then the caller is at it if `needed`; returns whether it is.
template <class Needed>
bool HeldRuns::claim(Needed needed) {
  bool is_mine = false;
  notify_.wait([&] {
    if (is_at_it_) return false;
    is_mine = is_at_it_ = needed();
    return true;
  });
  return is_mine;
}

void HeldRuns::run_again() {
  if (const auto executable = executable_.lock()) return run_again(*executable);
  // The executable is going, and whoever drops it does the work.
  notify_.wait([&] { return runs_.empty(); });
}

void HeldRuns::run_again(ExecutableImpl& executable) {
  if (!claim([&] { return has_work(); })) return;
  const Result<void> done = result_of([&] { do_work(executable); });
  // A fiber that was cancelled leaves the work to others.
  const bool is_left = !done.ok() && done.error().kind() == ErrorKind::kCancelled &&
                       notify_.is_at_home() && executable.client->is_open();
  notify_.change([&] {
    is_at_it_ = false;
    if (!done.ok() && !is_left) fail(done.error());
  });
  if (is_left) throw Error(done.error());
}

void HeldRuns::do_work(ExecutableImpl& executable) {
  notify_.wait([&] {
    return std::ranges::none_of(runs_, [](const HeldPtr& held) { return held->in_flight; });
  });
  bool overflowed = false;
  notify_.change([&] {
    end_cancelled();
    settle();
    overflowed = !runs_.empty() && runs_.front()->ended;
  });
  if (overflowed) {
    const std::string told = warning(program_);
    compile(executable, with_more_room(program_));
    ClientImpl& client = *executable.client;
    client.call("warn", [&] { client.session().warn(told); });
  } else if (plan_of(executable) == PlanId()) {
    compile(executable, program_);
  }
  send_all(executable);
}

// The states stay, since they are the slice's. The old plan goes first, for its memory. The new
// plan's sources read the texts that the old one's read, whatever was added to these: the runs are
// those that failed.
void HeldRuns::compile(ExecutableImpl& executable, Program program) {
  std::vector<uint64_t> ids;
  for (const auto& slice : executable.slices) ids.push_back(slice->id);
  ClientImpl& client = *executable.client;
  PlanId old;
  {
    const std::lock_guard lock(notify_.mutex);
    old = std::exchange(executable.plan.plan, PlanId());
  }
  executable.let_go_placed(old);
  CompiledPlan plan;
  const std::vector<std::byte> bytes = to_wire(program);
  client.call("compile again", [&] {
    client.session().release_plan(old);
    plan = client.session().compile(bytes, ids, options_, executable.plan.texts);
  });
  program_ = std::move(program);
  const std::lock_guard enqueueing(executable.enqueueing);
  executable.plan.memory = std::move(plan.memory);
  const std::lock_guard lock(notify_.mutex);
  executable.plan.plan = plan.plan;
}

void HeldRuns::send_all(ExecutableImpl& executable) {
  std::vector<HeldPtr> again;
  notify_.change([&] {
    end_cancelled();
    again.assign(runs_.begin(), runs_.end());
    for (const HeldPtr& held : again) {
      held->ended.reset();
      held->outcome->chain->last = RunId();
    }
  });
  const PlanId plan = plan_of(executable);
  for (const HeldPtr& held : again) {
    for (const auto& output : held->outputs) {
      if (const auto array = output.lock()) executable.client->let_go(array->id);
    }
    Bound bound = bind_all(executable, plan, held->arguments);
    const bool is_only_one = take_place(executable);
    const std::lock_guard enqueueing(executable.enqueueing);
    {
      const std::lock_guard lock(notify_.mutex);
      begin_sending(*held);
    }
    send(executable, held, std::move(bound), is_only_one);
  }
}

// Guarded. Ends the runs that are not in flight with this error.
void HeldRuns::fail(const Error& why) {
  for (const HeldPtr& held : runs_) {
    if (!held->in_flight) held->ended = RunDoneFrame{.error = why};
  }
  settle();
}

void HeldRuns::wait_for_all() {
  std::vector<std::shared_ptr<Outcome>> outcomes;
  {
    const std::lock_guard lock(notify_.mutex);
    for (const HeldPtr& held : runs_) outcomes.push_back(held->outcome);
  }
  for (const auto& outcome : outcomes) wait_until_ended(notify_, *outcome);
}

void HeldRuns::finish(ExecutableImpl& executable) {
  const auto all = [&] {
    bool has_more = true;
    while (has_more) {
      executable.client->require_open();
      // Once the user was told that one failed, those behind it can't commit any more.
      notify_.wait(
          [&] { return has_work() || runs_.empty() || (commits_ && executable.chain->told); });
      notify_.change([&] { has_more = has_work(); });
      if (has_more) run_again(executable);
    }
  };
  // An error: the client is closed, or this fiber was cancelled. The runs left end as they may.
  [[maybe_unused]] const Result<void> ended = result_of(all);
  give_up();
  drop_ended();
}

void HeldRuns::give_up() {
  notify_.change([&] {
    for (const HeldPtr& held : runs_) {
      ended_.push_back(held);
      if (held->in_flight) continue;  // Its end is reported as it comes.
      if (!held->ended) held->ended = RunDoneFrame{.error = cancelled(name_)};
      end(*held->outcome, *held->ended);
    }
    runs_.clear();
  });
}

void HeldRuns::drop_ended() {
  std::vector<HeldPtr> ended;
  const std::lock_guard lock(notify_.mutex);
  ended.swap(ended_);
}

bool HeldRuns::shares_states(const Program& program) const {
  return std::ranges::any_of(program.nodes, [&](const ProgramNode& node) {
    return node.kind == NodeKind::kState && states_.contains(node.name);
  });
}

namespace {

std::vector<std::shared_ptr<HeldRuns>> held_on(SliceImpl& slice) {
  std::vector<std::shared_ptr<HeldRuns>> all;
  const std::lock_guard lock(slice.mutex);
  std::erase_if(slice.held, [](const auto& held) { return held.expired(); });
  for (const auto& held : slice.held) {
    if (auto runs = held.lock()) all.push_back(std::move(runs));
  }
  return all;
}

}  // namespace

void hold_runs(const std::shared_ptr<ExecutableImpl>& executable, const CompileOptions& options) {
  executable->held = std::make_shared<HeldRuns>(executable, options);
  for (const auto& slice : executable->slices) {
    const std::lock_guard lock(slice->mutex);
    slice->held.push_back(executable->held);
  }
  executable->client->holds_runs = true;
}

void wait_for_held(const ExecutableImpl& executable, const std::vector<Argument>& arguments) {
  if (!executable.client->holds_runs) return;
  for (const auto& slice : executable.slices) {
    for (const auto& held : held_on(*slice)) {
      if (held != executable.held && held->shares_states(executable.program)) held->wait_for_all();
    }
  }
  for (const Argument& argument : arguments) {
    const auto* array = std::get_if<Array>(&argument.value);
    if (array == nullptr || array->impl() == nullptr || array->impl()->outcome == nullptr) continue;
    Outcome& outcome = *array->impl()->outcome;
    const std::shared_ptr<HeldRuns> held = outcome.held.lock();
    if (held != nullptr && held != executable.held)
      wait_until_ended(executable.client->notify, outcome);
  }
}

void wait_for_held(SliceImpl& slice) {
  for (const auto& held : held_on(slice)) held->wait_for_all();
}

}  // namespace gangway::internal
