#include "client/client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "client/client_impl.h"
#include "client/runs_in_flight.h"
#include "ir/plan/plan_check.h"
#include "protocol/slice_shape.h"
#include "runtime/base/loc.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

using internal::ArrayImpl;
using internal::ExecutableImpl;
using internal::RunImpl;

std::string names_of(const std::vector<internal::PlanPort>& ports) {
  std::string text;
  for (const internal::PlanPort& port : ports) text += (text.empty() ? "" : ", ") + port.name;
  return text.empty() ? "none" : text;
}

// The position of the port with this name; kInvalid lists those that exist.
uint32_t find_port(const char* what, const std::string& program,
                   const std::vector<internal::PlanPort>& ports, std::string_view name) {
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
  }
  throw Error(
      ErrorKind::kInvalid,
      cat("run of \"", program, "\": no ", what, " \"", name, "\"; there are: ", names_of(ports)),
      {.program = program});
}

void require_type(const std::string& program, const internal::PlanPort& port, const Type& type) {
  GW_REQUIRE(type == port.type, "run of \"", program, "\": input \"", port.name, "\": expected ",
             to_string(port.type), ", got ", to_string(type));
}

std::shared_ptr<ArrayImpl> hold(const std::shared_ptr<internal::ClientImpl>& client,
                                const HostTensor& tensor) {
  tensor.require_whole();
  auto array = std::make_shared<ArrayImpl>();
  array->client = client;
  array->type = tensor.type;
  array->tensor = tensor;
  return array;
}

// What a run names, and the arrays that must live until its frame is posted.
struct Bound {
  RunFrame frame;
  size_t inline_bytes = 0;
  std::vector<std::shared_ptr<ArrayImpl>> kept;
  std::vector<std::shared_ptr<internal::PlacedCopy>> copies;
};

void bind(ExecutableImpl& executable, const Argument& argument, Bound& bound) {
  const std::string& program = executable.program.name;
  const auto& ports = executable.plan.inputs;
  const uint32_t input = find_port("input", program, ports, argument.name);
  ArgumentFrame& to = bound.frame.arguments.emplace_back();
  to.input = input;
  std::shared_ptr<ArrayImpl> array;
  if (const auto* tensor = std::get_if<HostTensor>(&argument.value)) {
    require_type(program, ports[input], tensor->type);
    // What fits travels with the run. The rest is put where it belongs first.
    const size_t bytes = tensor->bytes.size();
    if (bytes > 0 && bytes <= kInlineBytesMax - bound.inline_bytes) {
      tensor->require_whole();
      bound.inline_bytes += bytes;
      to.bytes = tensor->bytes;
      return;
    }
    array = hold(executable.client, *tensor);
  } else {
    array = std::get<Array>(argument.value).impl();
    GW_REQUIRE(array != nullptr, "run of \"", program, "\": input \"", argument.name,
               "\" is an empty array");
    require_type(program, ports[input], array->type);
  }
  if (array->tensor) {
    bound.copies.push_back(array->place(executable.plan.plan, input));
    to.array = bound.copies.back()->id;
  } else {
    to.array = array->id;
  }
  bound.kept.push_back(std::move(array));
}

// Waits at the in-flight bounds, of the executable and of the client. Where runs are so short that
// half of them end while a thread is woken, it waits for half of the places: so their frames go
// together, and their ends too. Returns whether no other run of the client is in flight.
bool take_place(ExecutableImpl& executable) {
  constexpr std::chrono::milliseconds kHalfWaitedFor(1);
  internal::ClientImpl& client = *executable.client;
  int64_t& in_flight = *executable.in_flight;
  bool is_only_one = false;
  // Looks and takes under one lock: two never take the last place.
  const auto take = [&](int64_t free_min) {
    if (in_flight > executable.runs_in_flight_max - free_min ||
        *client.in_flight > client.run_credits - free_min)
      return false;
    ++in_flight;
    is_only_one = ++*client.in_flight == 1;
    return true;
  };
  if (!client.notify.is_at_home()) {
    const int64_t half = (std::min(executable.runs_in_flight_max, client.run_credits) + 1) / 2;
    bool is_first_look = true;
    const auto has_half = [&] { return take(std::exchange(is_first_look, false) ? 1 : half); };
    if (client.notify.wait_for(has_half, kHalfWaitedFor)) return is_only_one;
  }
  client.notify.wait([&] { return take(1); });
  return is_only_one;
}

}  // namespace

Array::Array(std::shared_ptr<ArrayImpl> impl) : impl_(std::move(impl)) {}
const Type& Array::type() const { return full().type; }
bool Array::ready() const { return full().ready(); }
HostTensor Array::to_host() const { return full().to_host(); }
const ArrayImpl& Array::full() const {
  GW_REQUIRE(impl_ != nullptr, "array: empty");
  return *impl_;
}

Run::Run(std::shared_ptr<RunImpl> impl) : impl_(std::move(impl)) {}

Array Run::operator[](std::string_view output) const {
  const ExecutableImpl& executable = *impl_->executable;
  return Array(impl_->outputs[find_port("output", executable.program.name, executable.plan.outputs,
                                        output)]);
}

bool Run::done() const {
  std::lock_guard lock(impl_->client->notify.mutex);
  return impl_->outcome->done;
}

void Run::wait() const { internal::wait_for(impl_->client->notify, *impl_->outcome); }

void Run::cancel() const {
  impl_->client->post(
      [id = impl_->id, name = impl_->executable->program.name](internal::Session& session) {
        session.cancel(id, Error(ErrorKind::kCancelled, cat("run of \"", name, "\": cancelled"),
                                 {.program = name}));
      });
}

Executable::Executable(std::shared_ptr<ExecutableImpl> impl) : impl_(std::move(impl)) {}

Run Executable::run(const std::vector<Argument>& arguments, const RunOptions& options) const {
  ExecutableImpl& executable = *impl_;
  const std::shared_ptr<internal::ClientImpl>& client = executable.client;
  client->require_open();
  GW_REQUIRE(options.time_limit_ms >= 0, "run: a negative time limit: ", options.time_limit_ms,
             " ms");
  Bound bound;
  for (const Argument& argument : arguments) bind(executable, argument, bound);
  const bool is_only_one = take_place(executable);

  auto run = std::make_shared<RunImpl>();
  run->client = client;
  run->executable = impl_;
  const std::lock_guard enqueueing(executable.enqueueing);
  run->id = client->new_run();
  bound.frame.after = executable.next_in_chain(*run);
  for (uint32_t i = 0; i < executable.plan.outputs.size(); ++i) {
    auto array = std::make_shared<ArrayImpl>();
    array->client = client;
    array->type = executable.plan.outputs[i].type;
    array->id = client->new_array();
    array->output = i;
    array->outcome = run->outcome;
    bound.frame.outputs.push_back(array->id);
    run->outputs.push_back(std::move(array));
  }
  bound.frame.plan = executable.plan.plan;
  bound.frame.run = run->id;
  bound.frame.time_limit_ms = options.time_limit_ms;
  bound.frame.source_positions.assign(executable.plan.sources, executable.position.fetch_add(1));
  client->send_run(
      std::move(bound.frame),
      [copies = std::move(bound.copies), outcome = run->outcome, in_flight = executable.in_flight,
       of_client = client->in_flight, notify = &client->notify](RunDoneFrame done) {
        notify->change([&] {
          outcome->error = std::move(done.error);
          for (const auto& copy : copies) {  // Why an argument was not there.
            if (outcome->error && copy->failed) outcome->error = copy->failed;
          }
          for (SmallOutput& small : done.outputs) {
            outcome->small[small.output] = std::move(small.bytes);
          }
          outcome->done = true;
          --*in_flight;
          --*of_client;
        });
      },
      is_only_one);
  return Run(std::move(run));
}

const Program& Executable::program() const { return impl_->program; }

MemoryReport Executable::memory() const { return impl_->plan.memory; }

uint64_t Executable::position() const { return impl_->position; }
void Executable::set_position(uint64_t position) const { impl_->position = position; }

namespace {

// What is wrong, where no line is known yet, is so at this one of the caller's.
template <class Body>
void at_line(const Loc& loc, Body body) {
  try {
    body();
  } catch (Error& error) {
    error.add_where({.at = to_string(loc)});
    throw;
  }
}

}  // namespace

Slice::Slice(std::shared_ptr<internal::SliceImpl> impl) : impl_(std::move(impl)) {}
int64_t Slice::devices() const { return impl_->devices; }

Mesh Slice::mesh(std::vector<MeshAxis> axes, Loc loc) const {
  Mesh mesh{std::move(axes)};
  at_line(loc, [&] {
    std::set<std::string> names;
    for (const MeshAxis& axis : mesh.axes) {
      GW_REQUIRE(axis.size >= 1 && !axis.name.empty() && names.insert(axis.name).second, "mesh ",
                 to_string(mesh), ": axis \"", axis.name, "\" is empty or named twice");
    }
    const int64_t ranks = impl_->ranks_per_device;
    GW_REQUIRE(
        mesh.devices() == devices(), "mesh ", to_string(mesh),
        ": expected sizes that multiply to the slice's ", devices(), " devices",
        ranks == 1 ? std::string() : cat(", ", ranks, " ranks on each of ", devices() / ranks),
        ", got ", mesh.devices());
  });
  return mesh;
}

Executable Slice::compile(const Program& program, const CompileOptions& options, Loc loc) const {
  return compile(program, {}, options, loc);
}

Executable Slice::compile(const Program& program, const std::vector<Slice>& more_slices,
                          const CompileOptions& asked, Loc loc) const {
  CompileOptions options = asked;
  if (options.runs_in_flight_max == 0)
    options.runs_in_flight_max = internal::default_runs_in_flight(program);
  GW_REQUIRE(options.runs_in_flight_max >= 1 && options.runs_in_flight_max <= kRunsInFlightMax,
             "compile: runs in flight: expected 1 to ", kRunsInFlightMax, ", got ",
             options.runs_in_flight_max);
  auto executable = std::make_shared<ExecutableImpl>();
  executable->client = impl_->client;
  executable->slices = {impl_};
  for (const Slice& slice : more_slices) executable->slices.push_back(slice.impl_);
  executable->program = program;
  executable->runs_in_flight_max = options.runs_in_flight_max;
  std::vector<uint64_t> ids;
  for (const auto& slice : executable->slices) ids.push_back(slice->id);
  at_line(loc, [&] {
    impl_->client->call("compile", [&, client = impl_->client.get()] {
      executable->plan = client->session().compile(program, ids, options);
    });
  });
  std::lock_guard lock(impl_->mutex);
  for (const internal::PlanPort& state : executable->plan.states) {
    impl_->states[state.name] = state.type;
  }
  return Executable(std::move(executable));
}

Array Slice::from_host(const HostTensor& tensor) const {
  return Array(hold(impl_->client, tensor));
}

std::vector<std::pair<std::string, Type>> Slice::states() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->states.begin(), impl_->states.end()};
}

namespace {

Type state_type(internal::SliceImpl& slice, const std::string& name) {
  std::lock_guard lock(slice.mutex);
  const auto at = slice.states.find(name);
  GW_REQUIRE(at != slice.states.end(), "state \"", name,
             "\": no program compiled on this slice has it; there are ", slice.states.size());
  return at->second;
}

Type part_type(internal::SliceImpl& slice, const std::string& name, const Box& part) {
  const Type type = state_type(slice, name);
  GW_REQUIRE(lies_in(part, type.dims), "state \"", name, "\": the part ", to_string(part),
             " does not lie in ", to_string(type));
  return {type.dtype, part.size};
}

}  // namespace

HostTensor Slice::read_state(const std::string& name) const {
  return read_state(name, whole_box(state_type(*impl_, name).dims));
}

void Slice::write_state(const std::string& name, const HostTensor& tensor) const {
  const Type type = state_type(*impl_, name);
  GW_REQUIRE(tensor.type == type, "state \"", name, "\": expected ", to_string(type), ", got ",
             to_string(tensor.type));
  write_state(name, whole_box(type.dims), tensor);
}

HostTensor Slice::read_state(const std::string& name, const Box& part) const {
  HostTensor tensor(part_type(*impl_, name, part));
  const auto bytes = impl_->client->heap().take(tensor.type.bytes());
  impl_->client->copy(
      {.kind = CopyKind::kGetState, .scope = {impl_->id}, .name = name, .part = part}, *bytes);
  std::memcpy(tensor.bytes.data(), bytes->data(), tensor.bytes.size());
  return tensor;
}

void Slice::write_state(const std::string& name, const Box& part, const HostTensor& tensor) const {
  const Type type = part_type(*impl_, name, part);
  GW_REQUIRE(tensor.type == type, "state \"", name, "\": expected ", to_string(type), " for ",
             to_string(part), ", got ", to_string(tensor.type));
  tensor.require_whole();
  const auto bytes = impl_->client->heap().take(type.bytes());
  std::memcpy(bytes->data(), tensor.bytes.data(), tensor.bytes.size());
  impl_->client->copy(
      {.kind = CopyKind::kPutState, .scope = {impl_->id}, .name = name, .part = part}, *bytes);
}

Client::Client(std::shared_ptr<internal::ClientImpl> impl) : impl_(std::move(impl)) {}

Slice Client::allocate(const SliceOptions& options, Loc loc) const {
  uint64_t id = 0;
  at_line(loc, [&] {
    require_ranks_divide(options.devices, options.ranks_per_device);
    id = impl_->call("allocate", [&, client = impl_.get()] {
      return client->session().allocate(static_cast<uint32_t>(options.devices),
                                        static_cast<uint32_t>(options.ranks_per_device));
    });
  });
  return Slice(std::make_shared<internal::SliceImpl>(impl_, id, options));
}

ClusterStatus Client::status() const {
  return impl_->call("status", [client = impl_.get()] { return client->session().status(); });
}

void Client::set_share(double weight, int32_t priority) const {
  const Share share{.weight = weight, .priority = priority};
  require_share("set_share", share);
  impl_->call("set share", [&, client = impl_.get()] { client->session().set_share(share); });
}

void Client::close() const { impl_->close(); }

LocalShape parse_local(const std::string& address) {
  const std::string prefix = "local:";
  const std::string text = address.starts_with(prefix) ? address.substr(prefix.size()) : "";
  constexpr int kExecutorsMax = 256, kDevicesMax = 256;
  LocalShape shape;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shape.executors);
  const bool cross = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  const auto second = std::from_chars(cross ? first.ptr + 1 : end, end, shape.devices);
  GW_REQUIRE(cross && second.ec == std::errc() && second.ptr == end && shape.executors >= 1 &&
                 shape.executors <= kExecutorsMax && shape.devices >= 1 &&
                 shape.devices <= kDevicesMax,
             "connect: \"", address,
             "\" is no local cluster: expected \"local:2x2\", executors x "
             "devices of each");
  return shape;
}

Client connect(const std::string& address, const ConnectOptions& options) {
  const bool local = address.starts_with("local:");
  const LocalShape shape = local ? parse_local(address) : LocalShape{};
  require_share("connect", {.weight = options.weight, .priority = options.priority});
  GW_REQUIRE(options.device == "cpu" || options.device == "cuda", "connect: there is no device \"",
             options.device, "\": expected \"cpu\" or \"cuda\"");
  GW_REQUIRE(options.device == "cpu" || (local && !options.in_process), "connect: \"",
             options.device, "\" devices are offered by executors of their own: ",
             "expected a local cluster of processes, got \"", address, "\"");
  const auto make = [&](Reactor& reactor) -> std::unique_ptr<internal::Cluster> {
    if (!local) return internal::join_cluster(reactor, address);
    if (options.in_process) return internal::start_in_process(reactor, shape, options);
    return internal::start_processes(reactor, shape, options);
  };
  return Client(std::make_shared<internal::ClientImpl>(make, options));
}

Client internal::connect_on(Reactor& reactor, Network& network, const std::string& address,
                            const ConnectOptions& options) {
  return Client(std::make_shared<internal::ClientImpl>(reactor, network, address, options));
}

}  // namespace gangway
