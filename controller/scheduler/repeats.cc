#include "controller/scheduler/repeats.h"

#include <algorithm>
#include <utility>

#include "ir/types/number.h"
#include "protocol/messages.h"
#include "runtime/base/plain_name.h"

namespace gangway {
namespace {

constexpr int kNameBits = 40;  // Bits of a client's names, below its session's number.

const Type& input_type(const Plan& plan, uint32_t input) {
  return plan.values[plan.inputs[input]].type;
}

std::string which_input(const std::string& who, const Plan& plan, uint32_t input) {
  return cat(who, ": input \"", plan.values[plan.inputs[input]].name, "\"");
}

void require_scalar(const std::string& who, const Plan& plan, uint32_t input) {
  const Type& type = input_type(plan, input);
  GW_REQUIRE(type.elements() == 1, which_input(who, plan, input),
             ": a schedule gives scalars, and it is ", to_string(type));
}

void require_input(const std::string& who, const Plan& plan, const ScheduledInput& input) {
  const auto* const bytes = std::get_if<std::vector<std::byte>>(&input.value);
  if (bytes == nullptr) return require_scalar(who, plan, input.input);
  const Type& type = input_type(plan, input.input);
  GW_REQUIRE(!bytes->empty() && static_cast<int64_t>(bytes->size()) == type.bytes(),
             which_input(who, plan, input.input), ": expected ", to_string(type), ", got ",
             bytes->size(), " bytes");
}

void require_inputs(const std::string& who, const Plan& plan, const RepeatRequest& request) {
  std::vector<bool> given(plan.inputs.size(), false);
  size_t bytes = 0;
  const auto take = [&](uint32_t input) {
    GW_REQUIRE(input < given.size() && !given[input], who, ": input ", input,
               " does not exist or is given twice");
    given[input] = true;
    bytes += static_cast<size_t>(input_type(plan, input).bytes());
  };
  for (const ScheduledInput& input : request.inputs) {
    take(input.input);
    require_input(who, plan, input);
  }
  for (const EarlierInput& input : request.earlier) {
    take(input.input);
    require_scalar(who, plan, input.input);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    GW_REQUIRE(given[i], who, ": input \"", plan.values[plan.inputs[i]].name, "\" is missing");
  }
  GW_REQUIRE(bytes <= kInlineBytesMax, who, ": its inputs take ", bytes,
             " bytes in each step: expected at most ", kInlineBytesMax);
}

// A client's names lie in the range of its session.
void require_names(const std::string& who, const PlanRecord& plan, const RepeatRequest& request) {
  const uint64_t of_step = plan.plan->outputs.size() + 1;
  const uint64_t first = request.first.value;
  const uint64_t all = static_cast<uint64_t>(request.steps) * of_step;
  const uint64_t left = (uint64_t{1} << kNameBits) - (first & ((uint64_t{1} << kNameBits) - 1));
  GW_REQUIRE(first >> kNameBits == plan.owner.value &&
                 all / of_step == static_cast<uint64_t>(request.steps) && all < left,
             who, ": the names of its runs are not in the range of client ", plan.owner);
}

}  // namespace

struct Repeats::Repetition {
  RepeatRequest request;
  OwnerUse::Hold held;  // The controller's memory for its inputs.
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const StateVersion> version;  // Version of the plan's states.
  std::optional<StateVersion> first_version;
  int64_t submitted = 0, in_flight = 0, done = 0;
  bool stopping = false;
  bool gone = false;         // Its plan or its program has gone.
  bool is_reported = false;  // Its end has been reported.
  std::optional<Error> error;
  int64_t error_step = 0;
  int64_t last_step = -1;  // The last step that has committed, and its outputs:
  std::vector<SmallOutput> outputs;
  WaitQueue changed;

  uint64_t names_of_step() const { return plan->outputs.size() + 1; }
  RunId run_of(int64_t step) const {
    return RunId(request.first.value + static_cast<uint64_t>(step) * names_of_step());
  }
  bool is_complete() const { return stopping || error || submitted == request.steps; }
};

uint64_t Repeats::begin(const PlanRecord& plan, RepeatRequest request, OwnerUse::Hold held) {
  const auto found = by_plan_.find(plan.id);
  if (found != by_plan_.end() && found->second->request.number == request.number)
    return found->second->run_of(request.steps).value - 1;
  const std::string who = cat("repeat of \"", plan.plan->name, "\"");
  GW_REQUIRE(found == by_plan_.end() || has_ended(*found->second), who,
             ": it is repeated already: expected to wait for the end, or to cancel it");
  GW_REQUIRE(request.begin >= 0 && request.begin <= request.steps, who, ": ", request.begin,
             " of its ", request.steps, " steps can't have committed");
  GW_REQUIRE(request.number > 0 && request.steps >= 1 && request.steps <= kRepeatStepsMax, who,
             ": expected 1 to ", kRepeatStepsMax, " steps, got ", request.steps);
  GW_REQUIRE(request.position < kSourcePositionMax - static_cast<uint64_t>(request.steps), who,
             ": expected positions of sources below ", kSourcePositionMax, ", got ",
             request.position, " in its first step");
  require_inputs(who, *plan.plan, request);
  require_names(who, plan, request);
  if (plan.broken && !plan.comes_with_next_run) throw Error(*plan.broken);
  auto one = std::make_shared<Repetition>();
  one->request = std::move(request);
  one->held = std::move(held);
  one->plan = plan.plan;
  one->version = plan.version;
  one->submitted = one->done = one->request.begin;
  if (found != by_plan_.end()) {
    // Its fiber may not have run since it ended, and may outlive this object.
    report_end(*found->second);
    found->second->held = {};
  }
  by_plan_[plan.id] = one;
  tell_(cat(who, " begins: ", one->request.steps, " steps"));
  fibers_.spawn("repeat", [this, one] {
    if (!one->gone) drive(one);
  });
  return one->run_of(one->request.steps).value - 1;
}

// After a wait the program may have ended, and this object with it: then the repetition has ended
// too.
void Repeats::drive(const RepetitionPtr& one) {
  while (!has_ended(*one)) {
    if (one->is_complete() || one->in_flight >= one->plan->runs_in_flight_max) {
      one->changed.wait("for a repeated step to end");
      continue;
    }
    const int64_t step = one->submitted++;
    ++one->in_flight;
    in_flight_.emplace(one->run_of(step), one);
    submit_(step_of(*one, step));
  }
  if (!one->gone && !one->is_reported) report_end(*one);
}

void Repeats::report_end(Repetition& one) const {
  if (std::exchange(one.is_reported, true)) return;
  const std::string how = one.error      ? cat(": ", one.error->message())
                          : one.stopping ? ": it was cancelled"
                                         : "";
  tell_(cat("repeat of \"", one.plan->name, "\" has ended after ", one.done, " of ",
            one.request.steps, " steps", how));
}

RunFrame Repeats::step_of(const Repetition& one, int64_t step) const {
  const RepeatRequest& request = one.request;
  RunFrame frame{.plan = request.plan,
                 .run = one.run_of(step),
                 .after = step == request.begin ? request.after : one.run_of(step - 1)};
  const auto give = [&](uint32_t input, std::vector<std::byte> bytes) {
    ArgumentFrame& argument = frame.arguments.emplace_back();
    argument.input = input;
    argument.bytes = std::move(bytes);
  };
  for (const ScheduledInput& input : request.inputs)
    give(input.input, bytes_at(input, input_type(*one.plan, input.input), step));
  for (const EarlierInput& input : request.earlier)
    give(input.input,
         nearest_bytes(input_type(*one.plan, input.input), input.schedule->value_at(step)));
  for (uint64_t i = 1; i < one.names_of_step(); ++i)
    frame.outputs.emplace_back(frame.run.value + i);
  frame.source_positions.assign(one.plan->sources.size(),
                                request.position + static_cast<uint64_t>(step));
  return frame;
}

// Steps behind a failed one fail too, and may end before it. The error of the earliest step is
// kept.
bool Repeats::run_ended(const RunDoneFrame& done) {
  const auto node = in_flight_.extract(done.run);
  if (node.empty()) return false;
  Repetition& one = *node.mapped();
  const auto step =
      static_cast<int64_t>((done.run.value - one.request.first.value) / one.names_of_step());
  --one.in_flight;
  if (!done.error) {
    ++one.done;
    // The step's own commit is counted later.
    one.first_version = StateVersion(one.version->value - static_cast<uint64_t>(step));
    if (step > one.last_step) {
      one.last_step = step;
      one.outputs = done.outputs;
    }
  } else if (!one.error || step < one.error_step) {
    one.error = done.error;
    one.error_step = step;
  }
  one.changed.wake_all();
  return true;
}

bool Repeats::has_ended(const Repetition& one) {
  return one.gone || (one.is_complete() && one.in_flight == 0);
}

std::optional<Error> Repeats::refusal(PlanId plan) const {
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end() || has_ended(*found->second)) return std::nullopt;
  const std::string& name = found->second->plan->name;
  return Error(ErrorKind::kInvalid,
               cat("run of \"", name, "\": it is repeated, and its steps follow one another"),
               {.program = name}, "wait for the end of the repetition, or cancel it");
}

RepeatProgress Repeats::progress_of(const Repetition& one) {
  RepeatProgress progress{.number = one.request.number,
                          .steps = one.request.steps,
                          .done = one.done,
                          .position = one.request.position + static_cast<uint64_t>(one.submitted),
                          .ended = has_ended(one),
                          .error = one.error,
                          .outputs = {}};
  for (const SmallOutput& output : one.outputs) {
    if (output.output >= one.plan->outputs.size()) continue;
    const PlanValue& value = one.plan->values[one.plan->outputs[output.output]];
    const bool is_whole = static_cast<int64_t>(output.bytes.size()) == value.type.bytes();
    if (value.type.elements() != 1 || !is_whole || !is_plain_name(value.name)) continue;
    if (progress.outputs.size() + 1 >= kReportedMax) break;
    progress.outputs.push_back({value.name, load_number(value.type.dtype, output.bytes.data())});
  }
  return progress;
}

RepeatProgress Repeats::progress(PlanId plan) const {
  const auto found = by_plan_.find(plan);
  return found == by_plan_.end() ? RepeatProgress() : progress_of(*found->second);
}

std::optional<RepeatRequest> Repeats::asked(PlanId plan) const {
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end()) return std::nullopt;
  const Repetition& one = *found->second;
  RepeatRequest request = one.request;
  if (one.stopping) request.steps = one.submitted;
  return request;
}

std::optional<StateVersion> Repeats::first_version(PlanId plan) const {
  const auto found = by_plan_.find(plan);
  return found == by_plan_.end() ? std::nullopt : found->second->first_version;
}

RepeatProgress Repeats::wait(PlanId plan, const StopToken& asker) {
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end()) return {};
  const RepetitionPtr one = found->second;
  while (!has_ended(*one)) gangway::wait(one->changed, "for a repetition to end", asker);
  if (one->gone) {
    throw Error(ErrorKind::kUnavailable,
                cat("repeat of \"", one->plan->name, "\": the program has gone"), {},
                "restore state from a checkpoint");
  }
  return progress_of(*one);
}

void Repeats::cancel(PlanId plan) {
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end()) return;
  found->second->stopping = true;
  found->second->changed.wake_all();
}

std::vector<Repeats::RepetitionPtr> Repeats::all() const {
  std::vector<RepetitionPtr> repetitions;
  for (const auto& [plan, one] : by_plan_) repetitions.push_back(one);
  return repetitions;
}

void Repeats::end_all(int64_t deadline_ns) {
  const std::vector<RepetitionPtr> ending = all();
  for (const RepetitionPtr& one : ending) cancel(one->request.plan);
  for (const RepetitionPtr& one : ending) {
    while (!has_ended(*one) && one->changed.wait_until_ns("for a repetition to end", deadline_ns)) {
    }
  }
}

// Its steps that are under way stay known until they end, or their ends would be taken for those of
// a client's runs.
void Repeats::forget(const RepetitionPtr& one) {
  one->gone = true;
  one->held = {};
  by_plan_.erase(one->request.plan);
  one->changed.wake_all();
}

void Repeats::plan_gone(PlanId plan) {
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end()) return;
  const RepetitionPtr one = found->second;
  forget(one);
}

Repeats::~Repeats() {
  for (const RepetitionPtr& one : all()) forget(one);
}

Reported Repeats::reported() const {
  RepetitionPtr last;
  for (const auto& [plan, one] : by_plan_) {
    if (last == nullptr || one->request.number > last->request.number) last = one;
  }
  if (last == nullptr || last->last_step < 0) return {};
  RepeatProgress progress = progress_of(*last);
  double step = static_cast<double>(progress.done);
  const auto is_step = [&](uint32_t input) {
    return last->plan->values[last->plan->inputs[input]].name == "step";
  };
  for (const ScheduledInput& input : last->request.inputs) {
    const auto* schedule = std::get_if<Schedule>(&input.value);
    if (schedule != nullptr && is_step(input.input)) step = value_at(*schedule, last->last_step);
  }
  for (const EarlierInput& input : last->request.earlier) {
    if (is_step(input.input)) step = input.schedule->value_at(last->last_step);
  }
  std::erase_if(progress.outputs, [](const ReportedNumber& one) { return one.name == "step"; });
  progress.outputs.insert(progress.outputs.begin(), {"step", step});
  return progress.outputs;
}

}  // namespace gangway
