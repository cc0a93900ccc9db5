#include "client/client.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "client/call_errors.h"
#include "client/cluster.h"
#include "client/failed_runs.h"
#include "client/objects.h"
#include "client/program_graph.h"
#include "client/runs_in_flight.h"
#include "client/send_run.h"
#include "client/session.h"
#include "ir/plan/plan_check.h"
#include "ir/plan/plan_text.h"
#include "ir/wire/wire.h"
#include "protocol/slice_shape.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/loc.h"

namespace gangway {

using internal::ArrayImpl;
using internal::at_line;
using internal::ExecutableImpl;
using internal::RunImpl;

Array::Array(std::shared_ptr<ArrayImpl> impl) : impl_(std::move(impl)) {}
const Type& Array::type() const { return full().type; }

bool Array::ready() const {
  const ArrayImpl& array = full();
  return array.outcome == nullptr || internal::is_done(array.session->notify, *array.outcome);
}

HostTensor Array::to_host(Loc loc) const {
  return at_line(loc, [&] {
    const ArrayImpl& array = full();
    if (array.tensor) return *array.tensor;
    internal::wait_for(array.session->notify, *array.outcome);
    HostTensor host(array.type);
    const auto small = array.outcome->small.find(array.output);
    if (small != array.outcome->small.end()) {
      GW_REQUIRE(small->second.size() == host.bytes.size(), "array: expected ", host.bytes.size(),
                 " bytes, got ", small->second.size());
      host.bytes = small->second;
      return host;
    }
    const auto part = array.session->bulk.get({.kind = HostTransferKind::kGet, .array = array.id},
                                              array.type.bytes());
    std::memcpy(host.bytes.data(), part->data(), host.bytes.size());
    return host;
  });
}

const ArrayImpl& Array::full() const {
  GW_REQUIRE(impl_ != nullptr, "array: empty");
  return *impl_;
}

Run::Run(std::shared_ptr<RunImpl> impl) : impl_(std::move(impl)) {}

Array Run::operator[](std::string_view output) const {
  const ExecutableImpl& executable = *impl_->executable;
  return Array(impl_->outputs[internal::find_port("output", executable.program.name,
                                                  executable.plan.outputs, output)]);
}

bool Run::done() const {
  return internal::is_done(impl_->executable->session->notify, *impl_->outcome);
}

void Run::wait(Loc loc) const {
  at_line(loc, [&] { internal::wait_for(impl_->executable->session->notify, *impl_->outcome); });
}

void Run::cancel() const {
  const std::string& name = impl_->executable->program.name;
  impl_->executable->session->cancel(
      impl_->outcome->run,
      Error(ErrorKind::kCancelled, cat("run of \"", name, "\": cancelled"), {.program = name}));
}

Executable::Executable(std::shared_ptr<ExecutableImpl> impl) : impl_(std::move(impl)) {}

Run Executable::run(const std::vector<Argument>& arguments, const RunOptions& options,
                    Loc loc) const {
  return Run(at_line(loc, [&] { return internal::run(impl_, arguments, options); }));
}

const Program& Executable::program() const { return impl_->program; }

MemoryReport Executable::memory() const { return impl_->plan.memory; }

std::string Executable::explain(const std::string& what) const {
  GW_REQUIRE(!what.empty(), "why: of nothing: expected a node's name, a value or a line");
  internal::Session& session = *impl_->session;
  return session.explain({.name = session.name(), .plan = impl_->plan.plan, .why = what});
}

std::string Executable::plan_text() const {
  internal::Session& session = *impl_->session;
  return to_text(session.graph({.name = session.name(), .plan = impl_->plan.plan}).plan);
}

uint64_t Executable::position() const { return impl_->position; }
void Executable::set_position(uint64_t position) const { impl_->position = position; }

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

namespace {

// Programs that share a state name its layers alike.
void require_equal_stacks(internal::SliceImpl& slice, const Program& program) {
  std::lock_guard lock(slice.mutex);
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kState) continue;
    const auto found = slice.states.find(node.name);
    GW_REQUIRE(found == slice.states.end() || found->second.stacked == node.stacked, "state \"",
               node.name, "\" stacks other layers in a program that was compiled on this slice ",
               "before");
  }
}

}  // namespace

Executable Slice::compile(const Program& program, const CompileOptions& options, Loc loc) const {
  return compile(program, std::span<const Slice>(), options, loc);
}

Executable Slice::compile(const Program& program, std::initializer_list<Slice> more_slices,
                          const CompileOptions& options, Loc loc) const {
  return compile(program, std::span(more_slices.begin(), more_slices.size()), options, loc);
}

Executable Slice::compile(const Program& program, std::span<const Slice> more_slices,
                          const CompileOptions& asked, Loc loc) const {
  CompileOptions options = asked;
  if (options.runs_in_flight_max == 0)
    options.runs_in_flight_max = internal::default_runs_in_flight(program);
  GW_REQUIRE(options.runs_in_flight_max >= 1 && options.runs_in_flight_max <= kRunsInFlightMax,
             "compile: runs in flight: expected 1 to ", kRunsInFlightMax, ", got ",
             options.runs_in_flight_max);
  // An executable that nobody can attach to needs no name.
  if (!impl_->session->has_chosen_name()) {
    options.name.clear();
  } else if (options.name.empty()) {
    options.name = program.name;
  }
  auto executable = std::make_shared<ExecutableImpl>();
  executable->session = impl_->session;
  executable->slices = {impl_};
  for (const Slice& slice : more_slices) executable->slices.push_back(slice.impl_);
  executable->program = program;
  executable->runs_in_flight_max = options.runs_in_flight_max;
  at_line(loc, [&] { require_equal_stacks(*impl_, program); });
  std::vector<uint64_t> ids;
  for (const auto& slice : executable->slices) ids.push_back(slice->id);
  at_line(loc, [&] { executable->plan = impl_->session->compile(to_wire(program), ids, options); });
  internal::begin_first_chain(*executable);
  const std::vector<std::string> ignored = impl_->note_states(executable->plan, program);
  if (!ignored.empty()) {
    impl_->session->warn(
        cat("program \"", program.name, "\": states that are on the slice already keep what they ",
            "hold, its initialisers of them are not used: ",
            internal::listed(ignored, [](const std::string& name) { return name; })));
  }
  return Executable(std::move(executable));
}

Array Slice::from_host(const HostTensor& tensor) const {
  return Array(internal::hold(impl_->session, tensor));
}

std::vector<std::pair<std::string, Type>> Slice::states() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<std::pair<std::string, Type>> states;
  for (const auto& [name, state] : impl_->states) states.emplace_back(name, state.type);
  return states;
}

Box StateTensor::in_state(Box box) const {
  const auto insert = [&](std::ptrdiff_t dim, int64_t at) {
    box.begin.insert(box.begin.begin() + dim, at);
    box.size.insert(box.size.begin() + dim, 1);
  };
  if (part) insert(1, *part);
  if (row) insert(0, *row);
  return box;
}

std::vector<StateTensor> Slice::state_tensors() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<StateTensor> tensors;
  for (const auto& [name, state] : impl_->states) {
    if (!state.stacked) {
      tensors.push_back({.name = name, .type = state.type, .state = name, .row = {}});
      continue;
    }
    Type layer = state.type;
    layer.dims.erase(layer.dims.begin());
    for (int64_t row = 0; row < state.stacked->count; ++row) {
      tensors.push_back({.name = layer_name(name, *state.stacked, row),
                         .type = layer,
                         .state = name,
                         .row = row});
    }
  }
  return tensors;
}

namespace {

Type state_type(internal::SliceImpl& slice, const std::string& name) {
  std::lock_guard lock(slice.mutex);
  const auto at = slice.states.find(name);
  GW_REQUIRE(at != slice.states.end(), "state \"", name,
             "\": no program compiled on this slice has it; there are: ",
             internal::names_in(slice.states));
  return at->second.type;
}

Type part_type(internal::SliceImpl& slice, const std::string& name, const Box& part) {
  const Type type = state_type(slice, name);
  GW_REQUIRE(lies_in(part, type.dims), "state \"", name, "\": the part ", to_string(part),
             " does not lie in ", to_string(type));
  return {type.dtype, part.size};
}

HostTensor read_part(internal::SliceImpl& slice, const std::string& name, const Box& part) {
  HostTensor tensor(part_type(slice, name, part));
  const auto bytes = internal::behind_runs(slice, {name}, [&] {
    return slice.session->bulk.get(
        {.kind = HostTransferKind::kReadState, .scope = {slice.id}, .name = name, .part = part},
        tensor.type.bytes());
  });
  std::memcpy(tensor.bytes.data(), bytes->data(), tensor.bytes.size());
  return tensor;
}

void write_part(internal::SliceImpl& slice, const std::string& name, const Box& part,
                const HostTensor& tensor) {
  const Type type = part_type(slice, name, part);
  GW_REQUIRE(tensor.type == type, "state \"", name, "\": expected ", to_string(type), " for ",
             to_string(part), ", got ", to_string(tensor.type));
  tensor.require_whole();
  internal::tell_of_failed_runs(slice, {name});
  const auto bytes = slice.session->bulk.heap().take(type.bytes());
  std::memcpy(bytes->data(), tensor.bytes.data(), tensor.bytes.size());
  slice.session->bulk.put(
      {.kind = HostTransferKind::kWriteState, .scope = {slice.id}, .name = name, .part = part},
      bytes);
}

}  // namespace

HostTensor Slice::read_state(const std::string& name, const Box& part, Loc loc) const {
  return at_line(loc, [&] {
    const bool is_all = part.begin.empty() && part.size.empty();
    return read_part(*impl_, name, is_all ? whole_box(state_type(*impl_, name).dims) : part);
  });
}

void Slice::write_state(const std::string& name, const HostTensor& tensor, Loc loc) const {
  at_line(loc, [&] {
    const Type type = state_type(*impl_, name);
    GW_REQUIRE(tensor.type == type, "state \"", name, "\": expected ", to_string(type), ", got ",
               to_string(tensor.type));
    write_part(*impl_, name, whole_box(type.dims), tensor);
  });
}

void Slice::write_state(const std::string& name, const Box& part, const HostTensor& tensor,
                        Loc loc) const {
  at_line(loc, [&] { write_part(*impl_, name, part, tensor); });
}

Client::Client(std::shared_ptr<internal::Session> session) : session_(std::move(session)) {}

namespace {

SliceShape shape_of(const SliceOptions& options) {
  int64_t devices = options.devices;
  std::vector<uint32_t> axes;
  int64_t product = 1;
  for (const MeshAxis& axis : options.mesh) {
    GW_REQUIRE(axis.size >= 1 && axis.size <= kPlanDevicesMax, "allocate: mesh: axis \"", axis.name,
               "\": expected a size of 1 to ", kPlanDevicesMax, ", got ", axis.size);
    axes.push_back(static_cast<uint32_t>(axis.size));
    product = std::min(product * axis.size, kPlanDevicesMax + 1);
  }
  if (devices == SliceOptions().devices && !axes.empty()) devices = product;
  require_ranks_divide(devices, options.ranks_per_device);
  GW_REQUIRE(options.per_host_max >= 0 && options.per_host_max <= kPlanDevicesMax,
             "allocate: per_host_max: expected 0 to ", kPlanDevicesMax, ", got ",
             options.per_host_max);
  SliceShape shape(static_cast<uint32_t>(devices), static_cast<uint32_t>(options.ranks_per_device));
  shape.axes = std::move(axes);
  shape.one_island = options.one_island;
  shape.per_host_max = static_cast<uint32_t>(options.per_host_max);
  shape.memory_bytes = options.memory_bytes;
  shape.exclusive = options.exclusive;
  shape.wait_ms = options.wait_ms;
  require_possible(shape);
  return shape;
}

}  // namespace

Slice Client::allocate(const SliceOptions& options, Loc loc) const {
  uint64_t id = 0;
  SliceShape shape(1);
  at_line(loc, [&] {
    shape = shape_of(options);
    id = session_->allocate(shape, options.on_wait);
  });
  return Slice(std::make_shared<internal::SliceImpl>(session_, id, shape));
}

const std::string& Client::name() const { return session_->name(); }
const std::string& Client::address() const { return session_->address(); }
bool Client::stop_requested() const { return session_->stop_requested(); }
ClusterStatus Client::status() const { return session_->status(); }

void Client::set_share(double weight, int32_t priority) const {
  const Share share{.weight = weight, .priority = priority};
  require_share("set_share", share);
  session_->set_share(share);
}

void Client::drain(const std::string& host) const {
  session_->drain(host, internal::Drain::kBegin);
}
void Client::undrain(const std::string& host) const {
  session_->drain(host, internal::Drain::kEnd);
}
void Client::forget(const std::string& host) const { session_->forget(host); }

void Client::report(Reported numbers) const {
  session_->require_open();
  require_reported("client", numbers);
  session_->report(std::move(numbers));
}

void Client::log(const std::string& text) const {
  session_->require_open();
  session_->log(text);
}

ProgramLog Client::logs(const std::string& name, const LogRequest& request) const {
  return session_->logs(name, request);
}

ProgramGraph Client::graph(const std::string& name, const std::string& executable) const {
  return session_->graph({.name = name, .executable = executable});
}

std::vector<Slice> Client::slices() const {
  std::vector<Slice> slices;
  for (auto& slice : session_->held_slices()) slices.emplace_back(std::move(slice));
  return slices;
}

std::vector<std::string> Client::executables() const {
  std::vector<std::string> names;
  for (const internal::HeldExecutable& held : session_->holdings().executables)
    names.push_back(held.name);
  return names;
}

Executable Client::executable(const std::string& name) const {
  return Executable(session_->held_executable(name));
}

bool Client::stop_program(const std::string& name, int64_t grace_ms) const {
  return session_->stop_program(name, grace_ms);
}

int64_t Client::suspend_program(const std::string& name) const {
  return session_->suspend_program(name, internal::Suspend::kBegin);
}

void Client::resume_program(const std::string& name) const {
  session_->suspend_program(name, internal::Suspend::kEnd);
}

void Client::detach() const {
  session_->require_open();
  session_->detach();
}

void Client::close() const { session_->close(); }

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

namespace {

Client join(const std::string& address, const ConnectOptions& options,
            internal::Session::Joins joins) {
  get_errors_for_files_beyond_the_limit();  // For checkpoints and timelines.
  const bool local = address.starts_with("local:");
  const LocalShape shape = local ? parse_local(address) : LocalShape{};
  require_share("connect", {.weight = options.weight, .priority = options.priority});
  GW_REQUIRE(options.device == "cpu" || options.device == "cuda", "connect: there is no device \"",
             options.device, "\": expected \"cpu\" or \"cuda\"");
  GW_REQUIRE(options.device == "cpu" || (local && !options.in_process), "connect: \"",
             options.device, "\" devices are offered by executors of their own: ",
             "expected a local cluster of processes, got \"", address, "\"");
  GW_REQUIRE(
      options.islands == 1 || (local && options.islands >= 1 && options.islands <= shape.executors),
      "connect: expected 1 to ", shape.executors, " islands for \"", address, "\", got ",
      options.islands);
  const auto make = [&](Reactor& reactor) -> std::unique_ptr<internal::Cluster> {
    if (!local) return internal::join_cluster(reactor, address, options.tls_folder);
    if (options.in_process) return internal::start_in_process(reactor, shape, options);
    return internal::start_processes(reactor, shape, options);
  };
  return Client(std::make_shared<internal::Session>(make, options, joins));
}

}  // namespace

Client connect(const std::string& address, const ConnectOptions& options) {
  return join(address, options, internal::Session::Joins::kAsNew);
}

Client attach(const std::string& address, const std::string& name, const ConnectOptions& options) {
  GW_REQUIRE(!name.empty(), "attach: expected the name of a program, got \"\"");
  GW_REQUIRE(!address.starts_with("local:"), "attach: \"", address,
             "\" starts a cluster: expected the address of one that runs");
  ConnectOptions named = options;
  named.name = name;
  named.number_name = false;
  return join(address, named, internal::Session::Joins::kDetached);
}

Client internal::attach_on(Reactor& reactor, Network& network, const std::string& address,
                           const ConnectOptions& options) {
  return Client(std::make_shared<internal::Session>(reactor, network, address, options,
                                                    Session::Joins::kDetached));
}

Client internal::connect_on(Reactor& reactor, Network& network, const std::string& address,
                            const ConnectOptions& options) {
  return Client(std::make_shared<internal::Session>(reactor, network, address, options));
}

}  // namespace gangway
