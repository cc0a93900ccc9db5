#include "tests/interpret/interpret.h"

#include <cmath>

#include "ir/graph/bodies.h"
#include "ir/types/axis_list.h"
#include "runtime/base/error.h"
#include "tests/interpret/bodies.h"
#include "tests/interpret/collective.h"
#include "tests/interpret/reference.h"

namespace gangway {
namespace internal {

void each(const Dims& dims, const std::function<void(const Dims& index, size_t at)>& visit) {
  Dims index(dims.size(), 0);
  auto count = static_cast<size_t>(Type{DType::kF64, dims}.elements());
  for (size_t at = 0; at < count; ++at) {
    visit(index, at);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

size_t position(const Dims& dims, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return static_cast<size_t>(at);
}

double wrap_i32(double value) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
}

bool above(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

Reference reference_of(Op op) {
  static const std::vector<Reference> table = [] {
    std::vector<Reference> references(kOpCount, nullptr);
    for (auto* family : {elementwise_references, shape_references, reduce_references,
                         index_references, random_references, norm_references, attention_references,
                         moe_references, optimizer_references}) {
      for (const ReferenceRow& row : family())
        references[static_cast<size_t>(row.op)] = row.reference;
    }
    return references;
  }();
  return table[static_cast<size_t>(op)];
}

}  // namespace internal

namespace {

std::vector<Type> types_of(const std::vector<Literal>& literals) {
  std::vector<Type> types;
  types.reserve(literals.size());
  for (const Literal& literal : literals) types.push_back(literal.type);
  return types;
}

std::vector<Literal> zeros_of(const std::vector<Type>& types) {
  std::vector<Literal> zeros;
  for (const Type& type : types)
    zeros.push_back({type, internal::Doubles(static_cast<size_t>(type.elements()), 0)});
  return zeros;
}

// The values of one device; the nodes of all devices advance together.
class Device {
 public:
  Device(const Function& function, const std::vector<Literal>& arguments) : function_(function) {
    GW_REQUIRE(arguments.size() == function.parameters.size(), "interpret: function \"",
               function.name, "\" has ", function.parameters.size(), " parameters, got ",
               arguments.size(), " arguments");
    for (size_t i = 0; i < arguments.size(); ++i) {
      GW_REQUIRE(arguments[i].type == function.types[i], "interpret: argument ", i, " (",
                 function.parameters[i].name, ") does not fit: expected ",
                 to_string(function.types[i]), ", got ", to_string(arguments[i].type));
    }
    values_ = arguments;
  }

  std::vector<Literal> inputs(const Node& node) const {
    std::vector<Literal> in;
    in.reserve(node.inputs.size());
    for (ValueId id : node.inputs) in.push_back(values_[id]);
    return in;
  }
  const Literal& value(ValueId id) const { return values_[id]; }
  void append(Literal literal) { values_.push_back(std::move(literal)); }
  void append_zeros(const Node& node) {
    const auto first = function_.types.begin() + node.first_result;
    for (Literal& zeros : zeros_of({first, first + node.results})) append(std::move(zeros));
  }
  // `device`: its number in the mesh.
  void run(const Node& node, int64_t device, InterpretOptions options) {
    std::vector<Literal> in = inputs(node);
    std::vector<Type> types = types_of(in);
    const OpCall call{node.op, types, node.attrs, node.body.get()};
    if (options.attention_flops != nullptr)
      options.attention_flops->at(static_cast<size_t>(device)) +=
          internal::attention_flops(call, in);
    for (Literal& result : evaluate_on(function_.mesh, device, call, in, options))
      append(std::move(result));
  }
  std::vector<Literal> results() const {
    std::vector<Literal> out;
    out.reserve(function_.results.size());
    for (ValueId id : function_.results) out.push_back(values_[id]);
    return out;
  }

 private:
  const Function& function_;
  std::vector<Literal> values_;  // Values so far. Index: ValueId.
};

// Runs one node that looks at the mesh, on all devices.
void run_together(const Function& function, NodeId id, std::vector<Device>& devices,
                  InterpretOptions options) {
  const Node& node = function.nodes[id];
  const std::vector<Type> types = input_types(function, node);
  const OpCall call{node.op, types, node.attrs};
  const char* list = node.attrs.find("axes") != nullptr ? "axes" : "axis";
  Traffic traffic{id, std::vector<int64_t>(devices.size(), 0)};
  std::vector<std::vector<Literal>> results(devices.size());
  const std::vector<int> axes = axes_of(function.mesh, node.attrs.text(list));
  const AttrValue* parts = node.attrs.find("parts");
  const int64_t members = members_along(function.mesh, axes);
  GW_REQUIRE(parts == nullptr || std::get<int64_t>(*parts) == members,
             "interpret_local: ", to_string(node.op), " of ", std::get<int64_t>(*parts),
             " parts: expected ", members, ", the devices along ", node.attrs.text(list), " of ",
             to_string(function.mesh));
  for (const std::vector<int64_t>& group : members_of_groups(function.mesh, axes)) {
    internal::GroupCall g{function.mesh, call, group, {}, {}, {}, options};
    g.sent.assign(group.size(), 0);
    for (int64_t device : group) {
      std::vector<const Literal*>& in = g.in.emplace_back();
      for (ValueId input : node.inputs)
        in.push_back(&devices[static_cast<size_t>(device)].value(input));
      g.out.push_back(zeros_of(row(node.op).type_rule(call)));
    }
    internal::group_reference_of(node.op)(g);
    for (size_t m = 0; m < group.size(); ++m) {
      results[static_cast<size_t>(group[m])] = std::move(g.out[m]);
      traffic.sent[static_cast<size_t>(group[m])] = g.sent[m];
    }
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    for (Literal& result : results[d]) devices[d].append(std::move(result));
  }
  if (options.traffic != nullptr) options.traffic->push_back(std::move(traffic));
}

std::vector<std::vector<Literal>> run_together(const Function& function,
                                               const std::vector<std::vector<Literal>>& arguments,
                                               InterpretOptions options,
                                               const std::vector<bool>& skip);

// Runs a scan or a call on all devices in lockstep, since its body may have collectives.
void run_body(const Node& node, std::vector<Device>& devices, InterpretOptions options) {
  internal::OfDevices operands;
  operands.reserve(devices.size());
  for (const Device& device : devices) operands.push_back(device.inputs(node));
  const std::vector<Type> types = types_of(operands[0]);
  const OpCall call{node.op, types, node.attrs, node.body.get()};
  const auto run = [&](const internal::OfDevices& arguments, const std::vector<bool>& skip) {
    return run_together(*node.body, arguments, options, skip);
  };
  internal::OfDevices results =
      node.op == Op::scan ? internal::run_scan(call, operands, run) : run(operands, {});
  for (size_t d = 0; d < devices.size(); ++d) {
    for (Literal& result : results[d]) devices[d].append(std::move(result));
  }
}

// `skip`: for each node, whether it gives zeros. Empty: no node does.
std::vector<std::vector<Literal>> run_together(const Function& function,
                                               const std::vector<std::vector<Literal>>& arguments,
                                               InterpretOptions options,
                                               const std::vector<bool>& skip) {
  GW_REQUIRE(static_cast<int64_t>(arguments.size()) == function.mesh.devices(),
             "interpret_local: the mesh ", to_string(function.mesh), " has ",
             function.mesh.devices(), " devices, got arguments of ", arguments.size());
  std::vector<Device> devices;
  devices.reserve(arguments.size());
  for (const std::vector<Literal>& of_device : arguments) devices.emplace_back(function, of_device);
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    if (!skip.empty() && skip[id]) {
      for (Device& device : devices) device.append_zeros(node);
    } else if (internal::group_reference_of(node.op) != nullptr) {
      run_together(function, id, devices, options);
    } else if (shares_body(node.op)) {
      run_body(node, devices, options);
    } else {
      for (size_t d = 0; d < devices.size(); ++d)
        devices[d].run(node, static_cast<int64_t>(d), options);
    }
  }
  std::vector<std::vector<Literal>> results;
  results.reserve(devices.size());
  for (const Device& device : devices) results.push_back(device.results());
  return results;
}

}  // namespace

std::vector<Literal> evaluate(const OpCall& call, const std::vector<Literal>& inputs,
                              InterpretOptions options) {
  if (call.op == Op::fusion || call.op == Op::call) return interpret(*call.body, inputs, options);
  if (call.op == Op::scan) {
    const auto run = [&](const internal::OfDevices& arguments, const std::vector<bool>&) {
      return internal::OfDevices{interpret(*call.body, arguments[0], options)};
    };
    return internal::run_scan(call, {inputs}, run)[0];
  }
  internal::Reference reference = internal::reference_of(call.op);
  if (reference == nullptr) {
    throw Error(ErrorKind::kUnimplemented,
                cat(to_string(call.op), ": it has no meaning on one device without its kernel"));
  }
  std::vector<Literal> out = zeros_of(row(call.op).type_rule(call));
  reference({call, inputs, out});
  for (Literal& literal : out) {
    if (options.round || !is_float(literal.type.dtype)) round_values(literal);
  }
  return out;
}

namespace {

// The even part of a tensor that a device holds.
Literal held_part(const Literal& whole, Type part, const Mesh& mesh, const Sharding& sharding,
                  int64_t device) {
  Literal held{std::move(part), {}};
  internal::each(held.type.dims, [&](Dims index, size_t) {
    for (size_t dim = 0; dim < index.size(); ++dim) {
      int64_t number = 0;  // Number of the part.
      for (const int axis : cut_axes(sharding, static_cast<int>(dim)))
        number = number * mesh.axes[static_cast<size_t>(axis)].size + mesh.coordinate(device, axis);
      index[dim] += number * held.type.dims[dim];
    }
    held.values.push_back(whole.values[internal::position(whole.type.dims, index)]);
  });
  return held;
}

}  // namespace

std::vector<Literal> evaluate_on(const Mesh& mesh, int64_t device, const OpCall& call,
                                 const std::vector<Literal>& inputs, InterpretOptions options) {
  const bool is_random = row(call.op).family == OpFamily::kRandom;
  if (!is_random || call.attrs.text("placements").empty()) return evaluate(call, inputs, options);
  Attrs attrs = call.attrs;
  attrs.set("dims", call.attrs.ints("whole"));
  attrs.set("whole", std::vector<int64_t>{});
  attrs.set("placements", std::string());
  const std::vector<Literal> whole = evaluate({call.op, call.inputs, attrs}, inputs, options);
  const auto placements = parse_axis_placements(call.attrs.text("placements"));
  return {held_part(whole[0], row(call.op).type_rule(call)[0], mesh, resolve(mesh, *placements),
                    device)};
}

std::vector<Literal> interpret(const Function& function, const std::vector<Literal>& arguments,
                               InterpretOptions options) {
  Device device(function, arguments);
  for (const Node& node : function.nodes) device.run(node, 0, options);
  return device.results();
}

std::vector<std::vector<Literal>> interpret_local(
    const Function& function, const std::vector<std::vector<Literal>>& arguments,
    InterpretOptions options) {
  return run_together(function, arguments, options, {});
}

}  // namespace gangway
