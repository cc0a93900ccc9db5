#include "tests/support/random_graph.h"

#include <limits>
#include <optional>
#include <string>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "ir/graph/bodies.h"
#include "ir/types/number.h"

namespace gangway::tests {
namespace {

size_t below(Random& random, size_t n) { return static_cast<size_t>(random() % n); }
bool chance(Random& random, int percent) {
  return below(random, 100) < static_cast<size_t>(percent);
}

std::string random_name(Random& random) {
  static const char* const kNames[] = {"w",    "loss",      "layers.0.up", "two words", "a\"b\\c",
                                       "über", "new\nline", "return",      "%0",        "\x7f\t"};
  return cat(kNames[below(random, std::size(kNames))], random() % 1000);
}

// A number that an element of the type can have.
double random_real(Random& random, DType of = DType::kF64) {
  static const double kReals[] = {0.0,
                                  -0.0,
                                  1.0,
                                  0.1,
                                  -1e300,
                                  5e-324,
                                  1.0 / 3,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN()};
  const double real = kReals[below(random, std::size(kReals))];
  return number_mistake(of, real) ? 1.0 / 3 : real;
}

Type random_type(Random& random) {
  static const DType kFloats[] = {DType::kF32, DType::kBF16, DType::kF64};
  Dims dims;
  for (size_t i = below(random, 4); i > 0; --i) dims.push_back(4 << below(random, 3));
  return {kFloats[below(random, 3)], dims};
}

// Placements that cut the type over some axes of the mesh.
AxisPlacements random_placements(Random& random, const Mesh& mesh, const Type& type) {
  AxisPlacements placements;
  for (const MeshAxis& axis : mesh.axes) {
    if (chance(random, 50)) continue;
    placements.emplace_back(axis.name, replicate());
    if (type.rank() == 0 || chance(random, 20)) continue;
    Placement cut = shard(static_cast<int>(below(random, type.dims.size())));
    placements.back().second = cut;
    if (chance(random, 30)) placements.back().second.order = static_cast<int>(below(random, 16));
    if (!cuts_evenly(type, mesh, resolve(mesh, placements))) placements.pop_back();
  }
  return placements;
}

Value any(Random& random, const std::vector<Value>& values) {
  return values[below(random, values.size())];
}

// One op on the given values; empty if the drawn op does not fit them.
std::vector<Value> random_op(Random& random, const std::vector<Value>& values) {
  Value x = any(random, values);
  Loc loc{"model/graph.cc", static_cast<int>(1 + below(random, 500))};
  int rank = x.rank();
  switch (below(random, 12)) {
    case 0: return {exp(x, loc)};
    case 1: return {Operand(x, loc) * Operand(x, loc)};
    case 2: return {Operand(x, loc) + Operand(0.5, loc)};
    case 3: return {sum(x, {}, loc)};
    case 4: return {transpose(x, {}, loc)};
    case 5: return {x.builder().constant(x.type(), random_real(random, x.dtype()), loc)};
    case 6: return {where(is_finite(x, loc), Operand(x, loc), Operand(0.0, loc))};
    case 7: return {convert(x, static_cast<DType>(2 + below(random, 3)), loc)};
    case 8: return {stop_gradient(x, loc)};
    case 9:
      if (rank == 0) return {};
      return {pad(x, rank - 1, 4, 0, random_real(random, x.dtype()), loc)};
    case 10: {
      if (rank == 0) return {};
      auto [best, index] = top_k(x, 2, loc);
      return {best, index};
    }
    default:
      if (rank == 0) return {};
      return {softmax(x, loc)};
  }
}

bool is_traceable(Value value) {
  return is_float(value.dtype()) && value.type().elements() < 65536;
}

std::shared_ptr<const Function> random_body(Random& random, const Mesh& mesh, const Type& type) {
  Builder builder("fused " + std::to_string(random() % 10), mesh);
  Value x = builder.parameter("x", type);
  Value y = exp(x, {"body.cc", 3});
  if (chance(random, 50)) y = neg(y, {"body.cc", 4});
  builder.result("y", y);
  return std::make_shared<Function>(builder.build());
}

void trace(Random& random, Builder& builder, std::vector<Value>& values, int depth);

// A scan with a random body, or two calls of one function.
std::vector<Value> random_bodies(Random& random, Builder& builder, const std::vector<Value>& values,
                                 int depth) {
  const Loc loc{"model/bodies.cc", static_cast<int>(1 + below(random, 500))};
  const Value x = any(random, values);
  if (chance(random, 50)) {
    const auto body = random_body(random, builder.function().mesh, x.type());
    const Value y = call(builder, body, {x}, loc)[0];
    return {y, call(builder, body, {y}, loc)[0]};
  }
  const ScanOperands operands{.length = static_cast<int64_t>(2 + below(random, 3)),
                              .carries = x,
                              .invariants = any(random, values),
                              .reverse = chance(random, 50),
                              .name = random_name(random)};
  const auto body = [&](const ScanStep& at) -> Scanned {
    std::vector<Value> inside = {at.carries, at.invariants};
    trace(random, at.builder, inside, depth + 1);
    return {.carries = Operand(at.carries, loc) * Operand(0.5, loc),
            .stacked = any(random, inside)};
  };
  const Scanned done = scan(builder, operands, body, loc);
  return {done.carries, done.stacked};
}

void trace(Random& random, Builder& builder, std::vector<Value>& values, int depth) {
  for (size_t i = 2 + below(random, 6); i > 0; --i) {
    if (depth < 3 && chance(random, 15)) {
      Builder::Scope scope(builder, random_name(random), {"model/scope.cc", 7});
      trace(random, builder, values, depth + 1);
    } else if (depth < 3 && chance(random, 15)) {
      Builder::Region region(builder);
      trace(random, builder, values, depth + 1);
    }
    const bool bodies = depth < 3 && chance(random, 8);
    for (Value value :
         bodies ? random_bodies(random, builder, values, depth) : random_op(random, values)) {
      if (is_traceable(value)) values.push_back(value);
    }
  }
}

void append_fusion(Random& random, Function& f) {
  auto input = static_cast<ValueId>(below(random, f.types.size()));
  if (!is_float(f.types[input].dtype)) return;
  Node node{.op = Op::fusion, .inputs = {input}, .first_result = f.value_count()};
  node.body = random_body(random, f.mesh, f.types[input]);
  f.types.push_back(f.types[input]);
  f.results.push_back(node.first_result);
  f.result_names.push_back("fused");
  f.nodes.push_back(std::move(node));
  f.infos.push_back({.origin = 0, .reason = Reason::kFuse});
}

}  // namespace

Function random_function(Random& random, const Mesh& mesh) {
  Builder builder(random_name(random), mesh);
  std::vector<Value> values;
  for (size_t i = 1 + below(random, 3); i > 0; --i) {
    Type type = random_type(random);
    values.push_back(
        builder.parameter(random_name(random), type, random_placements(random, mesh, type)));
  }
  trace(random, builder, values, 0);
  for (size_t i = 1 + below(random, 3); i > 0; --i) {
    builder.result(cat("r", i, random_name(random)), any(random, values));
  }
  Function f = builder.build();
  for (Parameter& parameter : f.parameters) {
    if (parameter.placements.empty() || chance(random, 70)) continue;
    for (size_t i = 0; i < parameter.placements.size(); ++i)
      parameter.priorities.push_back(1 + static_cast<int>(below(random, 15)));
  }
  if (chance(random, 50)) append_fusion(random, f);
  if (chance(random, 50)) {
    for (const Type& type : f.types) {
      f.shardings.push_back(resolve(mesh, random_placements(random, mesh, type)));
    }
  }
  return f;
}

Program random_program(Random& random) {
  Mesh mesh{{{"data", 2}, {"two words", 2}}};
  ProgramBuilder b(random_name(random), mesh, random());
  Type type = random_type(random);
  Value w = b.state("w", normal(type, 0.02), random_placements(random, mesh, type));
  Value m = b.state("m", zeros(type));
  if (chance(random, 50)) {
    StateTree layer;
    layer.child("a").set("up", chance(random, 50) ? zeros(type) : normal(type, 0.02));
    b.state("layers", stacked(layer, 1 + below(random, 3), below(random, 2)));
  }
  Value lr = b.input("lr", f32());
  b.source("tokens", {"text", {{"batch", int64_t{8}}, {"scale", random_real(random)}}},
           i32({8, 16}), {{"data", shard(0)}});
  std::vector<Value> values = {w, m};
  trace(random, b.builder(), values, 1);
  Value late = b.state("late", filled(type, random_real(random, type.dtype), Loc::current()));
  b.update(w, w * 0.5);
  b.update(late, late + 1);
  b.output("loss", sum(any(random, values)));
  b.output("lr", lr);
  if (chance(random, 50)) b.require_finite("loss");
  if (chance(random, 50)) {
    Mesh other{{{"stage", 2}}};
    uint32_t slice = b.slice(random_name(random), other);
    auto f = std::make_shared<Function>(random_function(random, other));
    std::vector<ProgramValue> arguments;
    for (size_t i = 0; i < f->parameters.size(); ++i) {
      arguments.push_back(b.input_on(slice, cat("x", i), f->types[i], f->parameters[i].placements));
    }
    auto results = b.call(slice, "stage", f, arguments);
    b.output_of("staged", b.transfer(results[0], 0));
  }
  return b.build();
}

void change(Function& f, Random& random) {
  if (f.nodes.empty()) {
    f.name += "'";
    return;
  }
  Node& node = f.nodes[below(random, f.nodes.size())];
  if (shares_body(node.op) && chance(random, 50)) {
    auto body = std::make_shared<Function>(*node.body);
    change(*body, random);
    node.body = std::move(body);
    return;
  }
  switch (below(random, 6)) {
    case 0: f.name += "'"; break;
    case 1: node.attrs.set("new", static_cast<int64_t>(random() % 100)); break;
    case 2: node.inputs.push_back(0); break;
    case 3: node.region += 1; break;
    case 4: f.types[below(random, f.types.size())].dims.push_back(1); break;
    default: f.result_names.back() += "'"; break;
  }
}

void change_side_tables(Function& f, Random& random) {
  f.locs.push_back({.file = "elsewhere.cc", .line = static_cast<int>(random() % 1000)});
  for (NodeInfo& info : f.infos) {
    info = {.loc = static_cast<uint32_t>(f.locs.size() - 1), .origin = 0, .reason = Reason::kFuse};
  }
}

}  // namespace gangway::tests
