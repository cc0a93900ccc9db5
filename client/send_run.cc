#include "client/send_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/call_errors.h"
#include "client/failed_runs.h"
#include "ir/plan/plan_check.h"
#include "runtime/base/units.h"

namespace gangway::internal {
namespace {

std::string names_of(const std::vector<PlanPort>& ports) {
  return listed(ports, [](const PlanPort& port) { return port.name; });
}

void require_type(const std::string& program, const PlanPort& port, const Type& type) {
  GW_REQUIRE(type == port.type, "run of \"", program, "\": input \"", port.name, "\": expected ",
             to_string(port.type), ", got ", to_string(type));
}

}  // namespace

uint32_t find_port(const char* what, const std::string& program, const std::vector<PlanPort>& ports,
                   std::string_view name) {
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
  }
  throw Error(
      ErrorKind::kInvalid,
      cat("run of \"", program, "\": no ", what, " \"", name, "\"; there are: ", names_of(ports)),
      {.program = program});
}

std::shared_ptr<ArrayImpl> hold(const std::shared_ptr<Session>& session, const HostTensor& tensor) {
  tensor.require_whole();
  auto array = std::make_shared<ArrayImpl>();
  array->session = session;
  array->type = tensor.type;
  array->tensor = tensor;
  return array;
}

namespace {

// A run's frame, and the arrays that must live until it is posted.
struct Bound {
  RunFrame frame;
  size_t inline_bytes = 0;
  std::vector<std::shared_ptr<ArrayImpl>> kept;
  std::vector<std::shared_ptr<PlacedCopy>> copies;
};

void bind_one(ExecutableImpl& executable, const Argument& argument, Bound& bound) {
  const std::string& program = executable.program.name;
  const auto& ports = executable.plan.inputs;
  const uint32_t input = find_port("input", program, ports, argument.name);
  ArgumentFrame& to = bound.frame.arguments.emplace_back();
  to.input = input;
  std::shared_ptr<ArrayImpl> array;
  if (const auto* tensor = std::get_if<HostTensor>(&argument.value)) {
    require_type(program, ports[input], tensor->type);
    // A tensor that fits travels with the run. Others are put where they belong first.
    const size_t bytes = tensor->bytes.size();
    if (bytes > 0 && bytes <= kInlineBytesMax - bound.inline_bytes) {
      tensor->require_whole();
      bound.inline_bytes += bytes;
      to.bytes = tensor->bytes;
      return;
    }
    array = hold(executable.session, *tensor);
  } else {
    array = std::get<Array>(argument.value).impl();
    GW_REQUIRE(array != nullptr, "run of \"", program, "\": input \"", argument.name,
               "\" is an empty array");
    require_type(program, ports[input], array->type);
  }
  if (array->tensor) {
    const ArrayImpl::Placed placed = array->place(executable.plan.plan, input);
    if (placed.is_new) executable.note_placed(array);
    to.array = placed.copy->id;
    bound.copies.push_back(placed.copy);
  } else {
    to.array = array->id;
  }
  bound.kept.push_back(std::move(array));
}

// The controller would say the same of such a run.
void require_each_input_once(const ExecutableImpl& executable, const Bound& bound) {
  const std::vector<ArgumentFrame>& given = bound.frame.arguments;
  const auto& ports = executable.plan.inputs;
  const auto say = [&](uint32_t input) {
    return cat("run of \"", executable.program.name, "\": input \"", ports[input].name, "\" is ");
  };
  for (auto one = given.begin(); one != given.end(); ++one) {
    GW_REQUIRE(std::find_if(
                   given.begin(), one,
                   [&](const ArgumentFrame& before) { return before.input == one->input; }) == one,
               say(one->input), "given twice");
  }
  if (given.size() == ports.size()) return;
  for (uint32_t input = 0; input < ports.size(); ++input) {
    GW_REQUIRE(std::ranges::find(given, input, &ArgumentFrame::input) != given.end(), say(input),
               "missing: it takes ", names_of(ports));
  }
}

// Suspends where a tensor is first copied to the devices, as the plan lays it out.
Bound bind_all(ExecutableImpl& executable, const std::vector<Argument>& arguments) {
  Bound bound;
  for (const Argument& argument : arguments) bind_one(executable, argument, bound);
  require_each_input_once(executable, bound);
  return bound;
}

// Waits at the in-flight bounds of the executable and of the client; the run's end gives the place
// back. Returns whether no other run of the client is in flight. Where runs are so short that half
// of them end while a thread is woken, the thread waits for half of the places, so that frames go
// together, and ends too.
bool take_place(ExecutableImpl& executable) {
  constexpr std::chrono::milliseconds kHalfWaitedFor(1);
  Session& session = *executable.session;
  int64_t& in_flight = *executable.in_flight;
  bool is_only_one = false;
  // Looks and takes under one lock, so that two threads never take the last place.
  const auto take = [&](int64_t free_min) {
    if (in_flight > executable.runs_in_flight_max - free_min ||
        *session.in_flight > session.run_credits - free_min)
      return false;
    ++in_flight;
    is_only_one = ++*session.in_flight == 1;
    return true;
  };
  if (!session.notify.is_at_home()) {
    const int64_t half = (std::min(executable.runs_in_flight_max, session.run_credits) + 1) / 2;
    bool is_first_look = true;
    const auto has_half = [&] { return take(std::exchange(is_first_look, false) ? 1 : half); };
    if (session.notify.wait_for(has_half, kHalfWaitedFor)) return is_only_one;
  }
  session.notify.wait([&] { return take(1); });
  return is_only_one;
}

// Creates a run with an array for each output of the plan.
std::shared_ptr<RunImpl> new_run(const std::shared_ptr<ExecutableImpl>& executable) {
  auto run = std::make_shared<RunImpl>();
  run->executable = executable;
  for (uint32_t i = 0; i < executable->plan.outputs.size(); ++i) {
    auto array = std::make_shared<ArrayImpl>();
    array->session = executable->session;
    array->type = executable->plan.outputs[i].type;
    array->output = i;
    array->outcome = run->outcome;
    run->outputs.push_back(std::move(array));
  }
  return run;
}

// Gives the run and its results names, and the run a place in the chain. The caller holds
// `enqueueing`.
void name_run(RunImpl& run, int64_t time_limit_ms, uint64_t position, RunFrame& frame) {
  ExecutableImpl& executable = *run.executable;
  Session& session = *executable.session;
  frame.plan = executable.plan.plan;
  frame.run = session.new_run();
  frame.after = executable.next_in_chain(frame.run, *run.outcome);
  frame.time_limit_ms = time_limit_ms;
  frame.source_positions.assign(executable.plan.sources, position);
  for (const auto& array : run.outputs) {
    array->id = session.new_array();
    frame.outputs.push_back(array->id);
  }
}

void end(Outcome& outcome, RunDoneFrame done) {
  outcome.error = std::move(done.error);
  if (outcome.error) note_failed(*outcome.chain, outcome.run, *outcome.error);
  for (SmallOutput& small : done.outputs) outcome.small[small.output] = std::move(small.bytes);
  outcome.done = true;
}

// The run's end sets its outcome, and gives its place back.
RunDone when_done(const RunImpl& run, std::vector<std::shared_ptr<PlacedCopy>> copies) {
  return [copies = std::move(copies), outcome = run.outcome, in_flight = run.executable->in_flight,
          of_session = run.executable->session->in_flight,
          notify = &run.executable->session->notify](RunDoneFrame done) {
    notify->change([&] {
      for (const auto& copy : copies) {  // Says why an argument was not there.
        if (done.error && copy->failed) done.error = copy->failed;
      }
      end(*outcome, std::move(done));
      --*in_flight;
      --*of_session;
    });
  };
}

}  // namespace

std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                             const std::vector<Argument>& arguments, const RunOptions& options) {
  executable->session->require_open();
  GW_REQUIRE(options.time_limit_ms >= 0, "run: a negative time limit: ", options.time_limit_ms,
             " ms");
  tell_of_failed_runs(*executable);
  Bound bound = bind_all(*executable, arguments);
  const bool is_only_one = take_place(*executable);
  const std::shared_ptr<RunImpl> run = new_run(executable);
  const std::lock_guard enqueueing(executable->enqueueing);
  name_run(*run, options.time_limit_ms, executable->position++, bound.frame);
  executable->session->send_run(std::move(bound.frame), when_done(*run, std::move(bound.copies)),
                                is_only_one);
  return run;
}

}  // namespace gangway::internal
