#include "client/repeat.h"

#include "client/client.h"
#include "client/failed_runs.h"
#include "client/objects.h"
#include "client/send_run.h"

namespace gangway {

using internal::ExecutableImpl;

namespace {

ScheduledInput bind(const ExecutableImpl& executable, const RepeatedInput& input, int64_t steps) {
  const std::string& program = executable.program.name;
  const auto& ports = executable.plan.inputs;
  ScheduledInput to;
  to.input = internal::find_port("input", program, ports, input.name);
  const std::string who = cat("repeat of \"", program, "\": input \"", input.name, "\"");
  if (const auto* schedule = std::get_if<Schedule>(&input.value)) {
    require_values(who, *schedule, ports[to.input].type.dtype, steps);
    to.value = *schedule;
    return to;
  }
  const auto& tensor = std::get<HostTensor>(input.value);
  tensor.require_whole();
  GW_REQUIRE(tensor.type == ports[to.input].type, who, ": expected ",
             to_string(ports[to.input].type), ", got ", to_string(tensor.type));
  to.value = tensor.bytes;
  return to;
}

}  // namespace

Repeat Executable::repeat(int64_t steps, const std::vector<RepeatedInput>& inputs) const {
  ExecutableImpl& executable = *impl_;
  internal::Session& session = *executable.session;
  session.require_open();
  const std::string& name = executable.program.name;
  constexpr int64_t kStepsMax = int64_t{1} << 30;
  GW_REQUIRE(steps >= 1 && steps <= kStepsMax, "repeat of \"", name, "\": expected 1 to ",
             kStepsMax, " steps, got ", steps);
  internal::tell_of_failed_runs(executable);
  internal::RepeatAsked asked{.plan = executable.plan.plan, .steps = steps};
  for (const RepeatedInput& input : inputs) asked.inputs.push_back(bind(executable, input, steps));
  {
    const std::lock_guard lock(session.notify.mutex);
    if (!executable.chain->told) asked.after = executable.chain->last;
  }
  asked.position = executable.position;
  asked.first_name =
      session.new_names(static_cast<uint64_t>(steps) * (executable.plan.outputs.size() + 1));
  const uint64_t number = session.repeat(asked);
  executable.position += static_cast<uint64_t>(steps);
  const std::lock_guard lock(session.notify.mutex);
  internal::begin_chain(executable);
  return {impl_, number};
}

std::optional<Repeat> Executable::repetition() const {
  const internal::RepeatReport reported =
      impl_->session->repetition(impl_->plan.plan, false, false);
  if (reported.number == 0) return std::nullopt;
  return Repeat(impl_, reported.number);
}

Repeat::Repeat(std::shared_ptr<ExecutableImpl> impl, uint64_t number)
    : impl_(std::move(impl)), number_(number) {}

RepeatStatus Repeat::ask(bool cancels, bool waits) const {
  ExecutableImpl& executable = *impl_;
  internal::Session& session = *executable.session;
  // A later repetition is not cancelled in place of this one.
  internal::RepeatReport reported = session.repetition(executable.plan.plan, false, false);
  if (reported.number == number_ && !reported.status.ended && (cancels || waits))
    reported = session.repetition(executable.plan.plan, cancels, waits);
  GW_REQUIRE(reported.number == number_, "repeat of \"", executable.program.name,
             "\": the executable has been repeated again since");
  if (reported.status.ended) executable.position = reported.position;
  return reported.status;
}

RepeatStatus Repeat::status() const { return ask(false, false); }

RepeatStatus Repeat::wait() const {
  RepeatStatus status = ask(false, true);
  if (status.error) throw Error(*status.error);
  return status;
}

void Repeat::cancel() const { ask(true, false); }

}  // namespace gangway
