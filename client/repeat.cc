// Functions of client.h's handles for repetitions, and for programs that go on without a client.
#include "client/repeat.h"

#include "client/client.h"
#include "client/client_impl.h"
#include "client/failed_runs.h"
#include "client/send_run.h"
#include "ir/wire/wire.h"
#include "runtime/base/loc.h"

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
  internal::ClientImpl& client = *executable.client;
  client.require_open();
  const std::string& name = executable.program.name;
  constexpr int64_t kStepsMax = int64_t{1} << 30;
  GW_REQUIRE(steps >= 1 && steps <= kStepsMax, "repeat of \"", name, "\": expected 1 to ",
             kStepsMax, " steps, got ", steps);
  internal::tell_of_failed_runs(executable);
  internal::RepeatAsked asked{.plan = executable.plan.plan, .steps = steps};
  for (const RepeatedInput& input : inputs) asked.inputs.push_back(bind(executable, input, steps));
  {
    const std::lock_guard lock(client.notify.mutex);
    if (!executable.chain->told) asked.after = executable.chain->last;
  }
  asked.position = executable.position;
  asked.first_name =
      client.new_names(static_cast<uint64_t>(steps) * (executable.plan.outputs.size() + 1));
  const uint64_t number =
      client.call("repeat", [&, of = &client] { return of->session().repeat(asked); });
  executable.position += static_cast<uint64_t>(steps);
  const std::lock_guard lock(client.notify.mutex);
  internal::begin_chain(executable);
  return {impl_, number};
}

std::optional<Repeat> Executable::repetition() const {
  const internal::RepeatTold told = impl_->client->call("repetition", [impl = impl_.get()] {
    return impl->client->session().repetition(impl->plan.plan, false, false);
  });
  if (told.number == 0) return std::nullopt;
  return Repeat(impl_, told.number);
}

Repeat::Repeat(std::shared_ptr<ExecutableImpl> impl, uint64_t number)
    : impl_(std::move(impl)), number_(number) {}

RepeatStatus Repeat::ask(bool cancels, bool waits) const {
  ExecutableImpl& executable = *impl_;
  const internal::RepeatTold told = executable.client->call("repetition", [&] {
    internal::Session& session = executable.client->session();
    // A later repetition is not cancelled in place of this one.
    internal::RepeatTold last = session.repetition(executable.plan.plan, false, false);
    const bool asks_more = last.number == number_ && !last.status.ended && (cancels || waits);
    return asks_more ? session.repetition(executable.plan.plan, cancels, waits) : last;
  });
  GW_REQUIRE(told.number == number_, "repeat of \"", executable.program.name,
             "\": the executable has been repeated again since");
  if (told.status.ended) executable.position = told.position;
  return told.status;
}

RepeatStatus Repeat::status() const { return ask(false, false); }

RepeatStatus Repeat::wait() const {
  RepeatStatus status = ask(false, true);
  if (status.error) throw Error(*status.error);
  return status;
}

void Repeat::cancel() const { ask(true, false); }

void Client::detach() const {
  impl_->require_open();
  impl_->detach();
}

std::vector<Slice> Client::slices() const {
  std::vector<Slice> slices;
  for (auto& slice : impl_->held_slices()) slices.emplace_back(std::move(slice));
  return slices;
}

std::vector<std::string> Client::executables() const {
  std::vector<std::string> names;
  for (const internal::HeldExecutable& held : impl_->holdings().executables)
    names.push_back(held.name);
  return names;
}

Executable Client::executable(const std::string& name) const {
  return Executable(impl_->held_executable(name));
}

bool Client::stop_requested() const { return impl_->stop_requested(); }

bool Client::stop_program(const std::string& name, int64_t grace_ms) const {
  return impl_->call(
      "stop", [&, client = impl_.get()] { return client->session().stop_program(name, grace_ms); });
}

int64_t Client::suspend_program(const std::string& name) const {
  return impl_->call("suspend",
                     [&, client = impl_.get()] { return client->session().suspend_program(name); });
}

void Client::resume_program(const std::string& name) const {
  impl_->call("resume", [&, client = impl_.get()] { client->session().resume_program(name); });
}

const std::string& Client::address() const { return impl_->address(); }

namespace internal {

std::vector<std::string> SliceImpl::note_states(const CompiledPlan& plan, const Program& program) {
  const std::lock_guard lock(mutex);
  std::vector<std::string> ignored;
  for (const PlanPort& state : plan.states) {
    const uint32_t node = program.find(NodeKind::kState, state.name);
    GW_ASSERT(node != kNone, "the plan has a state that the program lacks: ", state.name);
    const Hash128 begins = values_hash(*program.functions[program.nodes[node].function]);
    const auto [known, is_new] =
        states.try_emplace(state.name, State{state.type, program.nodes[node].stacked, begins});
    if (!is_new && known->second.begins != begins) ignored.push_back(state.name);
  }
  return ignored;
}

void ClientImpl::detach() {
  GW_REQUIRE(has_chosen_name_, "detach: expected a program with a name that somebody chose, got \"",
             name_, "\": connect with ConnectOptions::name");
  GW_REQUIRE(!is_local_, "detach: a local cluster ends with its client: expected a client of a ",
             "cluster that goes on");
  const auto leave = [this] {
    session_->send_last_lines(*lines_);
    session_->detach();
    end_cluster();
  };
  if (notify.is_at_home()) {
    leave();
  } else {
    thread_->ask("detach", leave);
  }
  closed_ = true;
}

HeldByProgram ClientImpl::holdings() {
  require_open();
  GW_REQUIRE(is_attached_,
             "client: expected one that has attached to a program, got one that began ", "its own");
  return call("holdings", [this] { return session_->holdings(); });
}

std::shared_ptr<SliceImpl> ClientImpl::held_slice(const HeldSlice& held) {
  std::weak_ptr<SliceImpl>& known = held_slices_[held.id];
  std::shared_ptr<SliceImpl> slice = known.lock();
  if (slice == nullptr) {
    slice = std::make_shared<SliceImpl>(shared_from_this(), held);
    known = slice;
  }
  return slice;
}

std::vector<std::shared_ptr<SliceImpl>> ClientImpl::held_slices() {
  const HeldByProgram all = holdings();
  const std::lock_guard lock(held_mutex_);
  std::vector<std::shared_ptr<SliceImpl>> slices;
  std::map<uint64_t, SliceImpl*> by_id;
  for (const HeldSlice& held : all.slices) {
    slices.push_back(held_slice(held));
    by_id[held.id] = slices.back().get();
  }
  for (const HeldExecutable& executable : all.executables) {
    const auto first = by_id.find(executable.slices.at(0));
    if (first != by_id.end()) first->second->note_states(executable.plan, executable.program);
  }
  return slices;
}

std::shared_ptr<ExecutableImpl> ClientImpl::held_executable(const std::string& name) {
  const std::vector<std::shared_ptr<SliceImpl>> slices = held_slices();
  HeldByProgram all = holdings();
  std::string names;
  for (HeldExecutable& held : all.executables) {
    names += cat(names.empty() ? "" : ", ", held.name);
    if (held.name != name) continue;
    const std::lock_guard lock(held_mutex_);
    std::weak_ptr<ExecutableImpl>& known = held_executables_[held.plan.plan];
    if (auto executable = known.lock()) return executable;
    auto executable = std::make_shared<ExecutableImpl>();
    executable->client = shared_from_this();
    executable->is_held = true;
    for (const uint64_t id : held.slices) {
      for (const auto& slice : slices) {
        if (slice->id == id) executable->slices.push_back(slice);
      }
    }
    GW_REQUIRE(executable->slices.size() == held.slices.size(), "executable \"", name,
               "\": the slices that it was compiled on are freed");
    executable->program = std::move(held.program);
    executable->plan = std::move(held.plan);
    executable->runs_in_flight_max = held.runs_in_flight_max;
    executable->position = held.position;
    begin_first_chain(*executable);
    known = executable;
    return executable;
  }
  throw Error(ErrorKind::kInvalid,
              cat("executable \"", name, "\": the program has none of the name; ",
                  "there are: ", names.empty() ? "none" : names));
}

}  // namespace internal
}  // namespace gangway
