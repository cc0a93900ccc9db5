#include "ir/plan/plan_wire.h"

#include <algorithm>

#include "ir/plan/plan.capnp.h"
#include "ir/plan/plan_check.h"
#include "ir/wire/message.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

using P = wire::Plan;

template <class T>
std::vector<T> read_numbers(typename capnp::List<T>::Reader list) {
  std::vector<T> numbers;
  numbers.reserve(list.size());
  for (T number : list) numbers.push_back(number);
  return numbers;
}

void write_function(capnp::Data::Builder to, const std::vector<std::byte>& bytes) {
  std::memcpy(to.begin(), bytes.data(), bytes.size());
}

std::shared_ptr<const Function> read_function(capnp::Data::Reader from) {
  return std::make_shared<const Function>(
      function_from_wire({reinterpret_cast<const std::byte*>(from.begin()), from.size()}));
}

void write_attr(P::Attr::Builder to, const std::string& name, const AttrValue& value) {
  to.setName(name);
  auto out = to.getValue();
  switch (kind_of(value)) {
    case AttrKind::kBool: out.setFlag(std::get<bool>(value)); break;
    case AttrKind::kInt: out.setInteger(std::get<int64_t>(value)); break;
    case AttrKind::kDouble: out.setReal(std::get<double>(value)); break;
    case AttrKind::kString: out.setText(std::get<std::string>(value)); break;
    case AttrKind::kInts: {
      const auto& ints = std::get<std::vector<int64_t>>(value);
      fill_list(out.initInts(list_size(ints.size())), ints);
      break;
    }
    case AttrKind::kDType: out.setDtype(static_cast<uint8_t>(std::get<DType>(value))); break;
  }
}

DType read_dtype(uint8_t number) {
  GW_REQUIRE(number < kDTypeCount, "plan: unknown dtype ", int{number});
  return static_cast<DType>(number);
}

AttrValue read_attr(P::Attr::Value::Reader from) {
  switch (from.which()) {
    case P::Attr::Value::FLAG: return from.getFlag();
    case P::Attr::Value::INTEGER: return from.getInteger();
    case P::Attr::Value::REAL: return from.getReal();
    case P::Attr::Value::TEXT: return std::string(from.getText().cStr());
    case P::Attr::Value::INTS: return read_numbers<int64_t>(from.getInts());
    case P::Attr::Value::DTYPE: return read_dtype(from.getDtype());
  }
  throw Error(ErrorKind::kInvalid, "plan: an attribute of an unknown kind");
}

// Enumerations travel as numbers; `last` is the highest that this version knows.
template <class Enum>
Enum read_enum(uint8_t number, Enum last, const char* what) {
  GW_REQUIRE(number <= static_cast<uint8_t>(last), "plan: unknown ", what, " ", int{number});
  return static_cast<Enum>(number);
}

void write_slice(P::Slice::Builder to, const PlanSlice& slice) {
  auto axes = to.initAxes(list_size(slice.mesh.axes.size()));
  for (uint32_t i = 0; i < axes.size(); ++i) {
    axes[i].setName(slice.mesh.axes[i].name);
    axes[i].setSize(slice.mesh.axes[i].size);
  }
  auto ranges = to.initRanges(list_size(slice.ranges.size()));
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    ranges[i].setHost(slice.ranges[i].host);
    ranges[i].setFirst(slice.ranges[i].first);
    ranges[i].setCount(slice.ranges[i].count);
  }
  to.setRanksPerDevice(slice.ranks_per_device);
}

PlanSlice read_slice(P::Slice::Reader from) {
  PlanSlice slice;
  for (auto axis : from.getAxes()) {
    slice.mesh.axes.push_back({axis.getName().cStr(), axis.getSize()});
  }
  for (auto range : from.getRanges()) {
    slice.ranges.push_back({range.getHost(), range.getFirst(), range.getCount()});
  }
  slice.ranks_per_device = from.getRanksPerDevice();
  return slice;
}

void write_local(P::LocalFunction::Builder to, const LocalFunction& local) {
  const std::vector<std::byte> bytes = to_wire(*local.function);
  write_function(to.initFunction(list_size(bytes.size())), bytes);
  to.setCommitBegin(local.commit_begin);
  to.setFiniteResult(local.finite_result);
  if (local.numerics.deterministic) to.setDeterministic(*local.numerics.deterministic ? 1 : 2);
  to.setAllowTf32(local.numerics.allow_tf32);
  auto pairs = to.initInPlace(list_size(local.in_place.size()));
  for (uint32_t i = 0; i < pairs.size(); ++i) {
    pairs[i].setParameter(local.in_place[i].parameter);
    pairs[i].setResult(local.in_place[i].result);
  }
  auto sections = to.initSections(list_size(local.sections.size()));
  for (uint32_t i = 0; i < sections.size(); ++i) {
    sections[i].setBegin(local.sections[i].begin);
    sections[i].setModelledNs(local.sections[i].modelled_ns);
  }
}

LocalFunction read_local(P::LocalFunction::Reader from) {
  LocalFunction local{.function = read_function(from.getFunction()),
                      .commit_begin = from.getCommitBegin(),
                      .finite_result = from.getFiniteResult()};
  if (from.getDeterministic() != 0) local.numerics.deterministic = from.getDeterministic() == 1;
  local.numerics.allow_tf32 = from.getAllowTf32();
  for (auto pair : from.getInPlace()) {
    local.in_place.push_back({pair.getParameter(), pair.getResult()});
  }
  for (auto section : from.getSections()) {
    local.sections.push_back({section.getBegin(), section.getModelledNs()});
  }
  return local;
}

void write_value(P::Value::Builder to, const PlanValue& value) {
  to.setName(value.name);
  to.setStorage(static_cast<uint8_t>(value.storage));
  to.setSlice(value.slice);
  auto type = to.initType();
  type.setDtype(static_cast<uint8_t>(value.type.dtype));
  fill_list(type.initDims(list_size(value.type.dims.size())), value.type.dims);
  auto sharding = to.initSharding(list_size(value.sharding.size()));
  for (uint32_t i = 0; i < sharding.size(); ++i) {
    sharding[i].setKind(static_cast<uint8_t>(value.sharding[i].kind));
    sharding[i].setDim(value.sharding[i].dim);
    sharding[i].setOrder(static_cast<uint8_t>(value.sharding[i].order));
  }
}

PlanValue read_value(P::Value::Reader from, const std::vector<PlanSlice>& slices) {
  PlanValue value{.name = from.getName().cStr(),
                  .storage = read_enum(from.getStorage(), PlanStorage::kOutput, "storage"),
                  .slice = from.getSlice(),
                  .type = {read_dtype(from.getType().getDtype()),
                           read_numbers<int64_t>(from.getType().getDims())}};
  for (auto placement : from.getSharding()) {
    value.sharding.push_back(
        {.kind = read_enum(placement.getKind(), PlacementKind::kPartial, "placement"),
         .dim = placement.getDim(),
         .order = placement.getOrder()});
  }
  // If there is no local type, require_valid() reports why.
  value.local_type = local_type_of(value, slices).value_or(Type{});
  return value;
}

void write_inputs(capnp::List<P::Input>::Builder to, const std::vector<PlanInput>& inputs) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setValue(inputs[i].value);
  }
}

std::vector<PlanInput> read_inputs(capnp::List<P::Input>::Reader from) {
  std::vector<PlanInput> inputs;
  inputs.reserve(from.size());
  for (auto input : from) inputs.emplace_back(input.getValue());
  return inputs;
}

void write_node(P::Node::Builder to, const PlanNode& node) {
  to.setKind(static_cast<uint8_t>(node.kind));
  to.setName(node.name);
  to.setSlice(node.slice);
  to.setFunction(node.function);
  to.setCall(node.call);
  to.setPeer(node.peer);
  write_inputs(to.initInputs(list_size(node.inputs.size())), node.inputs);
  fill_list(to.initResults(list_size(node.results.size())), node.results);
  auto attrs = to.initAttrs(list_size(node.attrs.size()));
  uint32_t i = 0;
  for (const auto& [name, value] : node.attrs) write_attr(attrs[i++], name, value);
  to.setAt(node.at);
}

PlanNode read_node(P::Node::Reader from) {
  PlanNode node{.kind = read_enum(from.getKind(), PlanNodeKind::kCommit, "node kind"),
                .name = from.getName().cStr(),
                .slice = from.getSlice(),
                .function = from.getFunction(),
                .call = from.getCall(),
                .peer = from.getPeer(),
                .inputs = read_inputs(from.getInputs()),
                .results = read_numbers<uint32_t>(from.getResults()),
                .at = from.getAt().cStr()};
  for (auto attr : from.getAttrs())
    node.attrs.set(attr.getName().cStr(), read_attr(attr.getValue()));
  return node;
}

bool has_orders(const Plan& plan) {
  return std::ranges::any_of(plan.values, [](const PlanValue& value) {
    return std::ranges::any_of(value.sharding,
                               [](const Placement& placement) { return placement.order != 0; });
  });
}

void write_plan(P::Builder to, const Plan& plan) {
  to.setVersion(has_orders(plan) ? wire::PLAN_VERSION_MAX : wire::PLAN_VERSION);
  to.setName(plan.name);
  to.setRunsInFlightMax(plan.runs_in_flight_max);
  to.setDispatch(static_cast<uint8_t>(plan.dispatch));
  to.setOverlaid(plan.overlaid);
  fill_list(to.initHosts(list_size(plan.hosts.size())), plan.hosts);
  fill_list(to.initIslands(list_size(plan.islands.size())), plan.islands);
  if (!plan.machines.empty())
    fill_list(to.initMachines(list_size(plan.machines.size())), plan.machines);
  auto slices = to.initSlices(list_size(plan.slices.size()));
  for (uint32_t i = 0; i < slices.size(); ++i) write_slice(slices[i], plan.slices[i]);
  auto functions = to.initFunctions(list_size(plan.functions.size()));
  for (uint32_t i = 0; i < functions.size(); ++i) write_local(functions[i], plan.functions[i]);
  auto values = to.initValues(list_size(plan.values.size()));
  for (uint32_t i = 0; i < values.size(); ++i) write_value(values[i], plan.values[i]);
  auto states = to.initStates(list_size(plan.states.size()));
  for (uint32_t i = 0; i < states.size(); ++i) {
    states[i].setValue(plan.states[i].value);
    const std::vector<std::byte> bytes = to_wire(*plan.states[i].init);
    write_function(states[i].initInit(list_size(bytes.size())), bytes);
  }
  auto nodes = to.initNodes(list_size(plan.nodes.size()));
  for (uint32_t i = 0; i < nodes.size(); ++i) write_node(nodes[i], plan.nodes[i]);
  fill_list(to.initInputs(list_size(plan.inputs.size())), plan.inputs);
  fill_list(to.initSources(list_size(plan.sources.size())), plan.sources);
  fill_list(to.initOutputs(list_size(plan.outputs.size())), plan.outputs);
}

Plan read_plan(P::Reader from) {
  GW_REQUIRE(from.getVersion() >= wire::PLAN_VERSION && from.getVersion() <= wire::PLAN_VERSION_MAX,
             "plan: of another version: expected ", uint32_t{wire::PLAN_VERSION}, " to ",
             uint32_t{wire::PLAN_VERSION_MAX}, ", got ", from.getVersion());
  Plan plan{.name = from.getName().cStr(),
            .inputs = read_numbers<uint32_t>(from.getInputs()),
            .sources = read_numbers<uint32_t>(from.getSources()),
            .outputs = read_numbers<uint32_t>(from.getOutputs()),
            .runs_in_flight_max = from.getRunsInFlightMax(),
            .dispatch = read_enum(from.getDispatch(), Dispatch::kSequential, "dispatch"),
            .overlaid = from.getOverlaid()};
  for (auto host : from.getHosts()) plan.hosts.emplace_back(host.cStr());
  for (auto island : from.getIslands()) plan.islands.emplace_back(island.cStr());
  plan.machines = read_numbers<uint32_t>(from.getMachines());
  for (auto slice : from.getSlices()) plan.slices.push_back(read_slice(slice));
  for (auto local : from.getFunctions()) plan.functions.push_back(read_local(local));
  for (auto value : from.getValues()) plan.values.push_back(read_value(value, plan.slices));
  for (auto state : from.getStates()) {
    plan.states.push_back({state.getValue(), read_function(state.getInit())});
  }
  for (auto node : from.getNodes()) plan.nodes.push_back(read_node(node));
  require_valid(plan);
  return plan;
}

}  // namespace

std::vector<std::byte> to_wire(const Plan& plan) {
  capnp::MallocMessageBuilder message;
  write_plan(message.initRoot<P>(), plan);
  return to_bytes(message);
}

Plan plan_from_wire(std::span<const std::byte> bytes) {
  GW_REQUIRE(bytes.size() <= kPlanBytesMax, "plan: too long: ", bytes.size(), " bytes, at most ",
             kPlanBytesMax);
  return read_message(
      "plan", bytes, [](capnp::MessageReader& message) { return read_plan(message.getRoot<P>()); });
}

}  // namespace gangway
