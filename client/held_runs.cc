#include "client/held_runs.h"

#include <algorithm>
#include <utility>

#include "client/send_run.h"
#include "ir/plan/rows_overflow.h"

namespace gangway::internal {

HeldRuns::HeldRuns(const std::shared_ptr<ExecutableImpl>& executable, const CompileOptions& options)
    : executable_(executable),
      notify_(executable->client->notify),
      options_(options),
      program_(executable->program) {}

std::shared_ptr<RunImpl> HeldRuns::run(const std::shared_ptr<ExecutableImpl>& executable,
                                       const std::vector<Argument>& arguments,
                                       const RunOptions& options) {
  while (true) {
    drop_ended();
    run_again();
    const bool is_only_one = take_place(*executable);
    const std::lock_guard enqueueing(executable->enqueueing);
    if (!is_free(*executable)) continue;
    const std::shared_ptr<RunImpl> run = new_run(executable);
    const auto held = std::make_shared<Held>();
    held->arguments = arguments;
    held->time_limit_ms = options.time_limit_ms;
    held->position = executable->position;
    held->run = run;
    held->outcome = run->outcome;
    held->outputs.assign(run->outputs.begin(), run->outputs.end());
    run->outcome->held = weak_from_this();
    send(*executable, held, is_only_one);
    ++executable->position;
    return run;
  }
}

void HeldRuns::drop_ended() {
  std::vector<HeldPtr> ended;
  const std::lock_guard lock(notify_.mutex);
  ended.swap(ended_);
}

// Else the place is given back, and the run comes behind those that are sent again.
bool HeldRuns::is_free(ExecutableImpl& executable) {
  {
    const std::lock_guard lock(notify_.mutex);
    if (!overflowed_ && !is_at_it_) return true;
  }
  give_back_place(executable);
  return false;
}

// With `enqueueing` held, and a place taken.
void HeldRuns::send(ExecutableImpl& executable, const HeldPtr& held, bool is_only_one) {
  Bound bound;
  try {
    bound = bind_all(executable, held->arguments);
  } catch (...) {
    give_back_place(executable);
    throw;
  }
  std::vector<std::shared_ptr<ArrayImpl>> outputs;
  for (const auto& output : held->outputs) outputs.push_back(output.lock());
  for (auto& output : outputs) {  // What nobody holds any more is let go below.
    if (output != nullptr) continue;
    output = std::make_shared<ArrayImpl>();
    output->client = executable.client;
    output->outcome = held->outcome;
  }
  const RunId id =
      name_run(executable, *held->outcome, outputs,
               {.time_limit_ms = held->time_limit_ms, .position = held->position}, bound.frame);
  {
    const std::lock_guard lock(notify_.mutex);
    if (const auto run = held->run.lock()) run->id = id;
    if (std::ranges::find(runs_, held) == runs_.end()) runs_.push_back(held);
    held->in_flight = true;
  }
  const auto end_of = [self = weak_from_this(), weak = std::weak_ptr(held),
                       outcome = held->outcome](RunDoneFrame done) {
    const HeldPtr still = weak.lock();
    const std::shared_ptr<HeldRuns> runs = self.lock();
    if (still == nullptr || runs == nullptr || !still->in_flight)
      return end(*outcome, std::move(done));  // It was given up.
    still->in_flight = false;
    still->ended = std::move(done);
    runs->settle();
  };
  executable.client->send_run(std::move(bound.frame),
                              when_done(executable, std::move(bound.copies), end_of), is_only_one);
}

// In the order of the chain: of those behind an overflow nobody is told.
void HeldRuns::settle() {
  while (!runs_.empty() && runs_.front()->ended && !overflowed_) {
    const std::optional<Error>& error = runs_.front()->ended->error;
    if (error && error->kind() == ErrorKind::kOverflow) {
      overflowed_ = true;
    } else {
      end_first();
    }
  }
}

void HeldRuns::end_first() {
  const HeldPtr held = runs_.front();
  runs_.pop_front();
  ended_.push_back(held);
  end(*held->outcome, std::move(*held->ended));
}

// Those from the one of this number on; all have ended.
void HeldRuns::end_from(size_t first) {
  const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
  std::deque<HeldPtr> kept(runs_.begin(), begin);
  runs_.erase(runs_.begin(), begin);
  while (!runs_.empty()) end_first();
  runs_ = std::move(kept);
}

void HeldRuns::run_again() {
  const auto executable = executable_.lock();
  if (executable == nullptr) return give_up();
  bool is_mine = false;
  notify_.wait([&] {
    if (is_at_it_) return false;
    is_mine = is_at_it_ = overflowed_;
    return true;
  });
  if (!is_mine) return;
  notify_.wait([&] {
    return std::ranges::none_of(runs_, [](const HeldPtr& held) { return held->in_flight; });
  });
  std::optional<Error> failed;
  try {
    compile_again(*executable);
    send_again(*executable);
  } catch (const Error& error) {
    failed = error;
  }
  notify_.change([&] {
    is_at_it_ = false;
    if (!failed) return;
    overflowed_ = false;
    for (const HeldPtr& held : runs_) {
      if (!held->in_flight && !held->ended) held->ended.emplace();
      if (!held->in_flight) held->ended->error = failed;
    }
    settle();
  });
}

// The states stay: they are the slice's. The old plan goes first, for its memory.
void HeldRuns::compile_again(ExecutableImpl& executable) {
  program_ = with_more_room(program_);
  std::vector<uint64_t> ids;
  for (const auto& slice : executable.slices) ids.push_back(slice->id);
  CompiledPlan plan;
  ClientImpl& client = *executable.client;
  client.call("compile again", [&] {
    client.session().release_plan(executable.plan.plan);
    plan = client.session().compile(program_, ids, options_);
  });
  const std::lock_guard enqueueing(executable.enqueueing);
  executable.plan.plan = plan.plan;
  executable.plan.memory = std::move(plan.memory);
}

void HeldRuns::send_again(ExecutableImpl& executable) {
  std::vector<HeldPtr> again;
  notify_.change([&] {
    const auto cancelled =
        std::ranges::find_if(runs_, [](const HeldPtr& held) { return held->outcome->cancelled; });
    end_from(static_cast<size_t>(cancelled - runs_.begin()));
    again.assign(runs_.begin(), runs_.end());
    for (const HeldPtr& held : again) held->ended.reset();
    executable.chain = std::make_shared<Chain>();
    overflowed_ = false;
  });
  for (const HeldPtr& held : again) {
    for (const auto& output : held->outputs) {
      if (const auto array = output.lock()) executable.client->let_go(array->id);
    }
    const bool is_only_one = take_place(executable);
    const std::lock_guard enqueueing(executable.enqueueing);
    send(executable, held, is_only_one);
  }
}

void HeldRuns::give_up() {
  std::deque<HeldPtr> runs;
  notify_.change([&] {
    overflowed_ = false;
    runs.swap(runs_);
    for (const HeldPtr& held : runs) {
      held->in_flight = false;
      if (held->ended) end(*held->outcome, std::move(*held->ended));
    }
  });
  drop_ended();
}

}  // namespace gangway::internal
