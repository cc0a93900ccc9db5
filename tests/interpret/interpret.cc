#include "tests/interpret/interpret.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
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
  void run(const Node& node, InterpretOptions options) {
    std::vector<Literal> in = inputs(node);
    std::vector<Type> types = types_of(in);
    for (Literal& result : evaluate({node.op, types, node.attrs, node.body.get()}, in, options)) {
      append(std::move(result));
    }
  }
  std::vector<Literal> results() const {
    std::vector<Literal> out;
    out.reserve(function_.results.size());
    for (ValueId id : function_.results) out.push_back(values_[id]);
    return out;
  }

 private:
  const Function& function_;
  std::vector<Literal> values_;  // By ValueId, so far.
};

double reduce_two(const std::string& reduction, double a, double b) {
  if (reduction == "max") return internal::above(a, b) ? a : b;
  if (reduction == "min") return std::isnan(a) || a < b ? a : b;
  return a + b;
}

// Whether two devices meet in a reduction over `axes`: they agree on all other coordinates.
bool meet(const Mesh& mesh, const std::string& axes, int64_t a, int64_t b) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::string listed = "," + axes + ",";
    if (listed.find("," + mesh.axes[axis].name + ",") != std::string::npos) continue;
    int i = static_cast<int>(axis);
    if (mesh.coordinate(a, i) != mesh.coordinate(b, i)) return false;
  }
  return true;
}

// Operand `operand` of an all-reduce, on all devices.
void all_reduce(const Mesh& mesh, const Node& node, size_t operand, std::vector<Device>& devices,
                InterpretOptions options) {
  std::vector<Literal> reduced;
  auto count = static_cast<int64_t>(devices.size());
  for (int64_t to = 0; to < count; ++to) {
    Literal total;
    for (int64_t from = 0; from < count; ++from) {
      if (!meet(mesh, node.attrs.text("axes"), to, from)) continue;
      const Literal& term = devices[static_cast<size_t>(from)].value(node.inputs[operand]);
      if (total.values.empty()) {
        total = term;
        continue;
      }
      for (size_t i = 0; i < term.values.size(); ++i) {
        total.values[i] = reduce_two(node.attrs.text("reduction"), total.values[i], term.values[i]);
      }
    }
    if (options.round) round_values(total);
    reduced.push_back(std::move(total));
  }
  for (size_t d = 0; d < devices.size(); ++d) devices[d].append(std::move(reduced[d]));
}

void shard_slice(const Mesh& mesh, const Node& node, std::vector<Device>& devices) {
  int axis = mesh.axis(node.attrs.text("axis"));
  GW_REQUIRE(axis >= 0, "shard_slice: no mesh axis \"", node.attrs.text("axis"), "\" in ",
             to_string(mesh));
  for (size_t d = 0; d < devices.size(); ++d) {
    int64_t coordinate = mesh.coordinate(static_cast<int64_t>(d), axis);
    devices[d].append(part_of(devices[d].value(node.inputs[0]),
                              static_cast<int>(node.attrs.integer("dim")),
                              node.attrs.integer("parts"), coordinate));
  }
}

}  // namespace

std::vector<Literal> evaluate(const OpCall& call, const std::vector<Literal>& inputs,
                              InterpretOptions options) {
  if (call.op == Op::fusion) return interpret(*call.body, inputs, options);
  internal::Reference reference = internal::reference_of(call.op);
  if (reference == nullptr) {
    throw Error(ErrorKind::kUnimplemented,
                cat(to_string(call.op), ": it has no meaning on one device without its kernel"));
  }
  std::vector<Literal> out;
  for (const Type& type : row(call.op).type_rule(call))
    out.push_back({type, internal::Doubles(static_cast<size_t>(type.elements()), 0)});
  reference({call, inputs, out});
  for (Literal& literal : out) {
    if (options.round || !is_float(literal.type.dtype)) round_values(literal);
  }
  return out;
}

std::vector<Literal> interpret(const Function& function, const std::vector<Literal>& arguments,
                               InterpretOptions options) {
  Device device(function, arguments);
  for (const Node& node : function.nodes) device.run(node, options);
  return device.results();
}

std::vector<std::vector<Literal>> interpret_local(
    const Function& function, const std::vector<std::vector<Literal>>& arguments,
    InterpretOptions options) {
  GW_REQUIRE(static_cast<int64_t>(arguments.size()) == function.mesh.devices(),
             "interpret_local: the mesh ", to_string(function.mesh), " has ",
             function.mesh.devices(), " devices, got arguments of ", arguments.size());
  std::vector<Device> devices;
  devices.reserve(arguments.size());
  for (const std::vector<Literal>& of_device : arguments) devices.emplace_back(function, of_device);
  for (const Node& node : function.nodes) {
    if (node.op == Op::all_reduce) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        all_reduce(function.mesh, node, i, devices, options);
    } else if (node.op == Op::shard_slice) {
      shard_slice(function.mesh, node, devices);
    } else {
      for (Device& device : devices) device.run(node, options);
    }
  }
  std::vector<std::vector<Literal>> results;
  results.reserve(devices.size());
  for (const Device& device : devices) results.push_back(device.results());
  return results;
}

}  // namespace gangway
