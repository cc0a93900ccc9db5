#include "ir/build/builder.h"

#include <algorithm>
#include <numeric>

#include "ir/build/body_cache.h"
#include "ir/types/limits.h"
#include "ir/verify/verify_internal.h"
#include "runtime/base/error.h"

namespace gangway {

Builder::Builder(std::string name, Mesh mesh) : bodies_(std::make_shared<internal::BodyCache>()) {
  function_.name = std::move(name);
  function_.mesh = std::move(mesh);
}

Builder::Builder(const Builder& outer, std::string name) : bodies_(outer.bodies_) {
  function_.name = std::move(name);
  function_.mesh = outer.function_.mesh;
  // The scopes from the outermost to the one where `outer` is.
  std::vector<uint32_t> chain;
  for (uint32_t at = outer.scope_; at != kNone; at = outer.function_.locs[at].parent)
    chain.push_back(at);
  for (; !chain.empty(); chain.pop_back()) {
    LocEntry entry = outer.function_.locs[chain.back()];
    entry.parent = scope_;
    scope_ = static_cast<uint32_t>(function_.locs.size());
    locs_.emplace(std::tuple(entry.file, entry.line, entry.scope, entry.parent), scope_);
    function_.locs.push_back(std::move(entry));
  }
}

Builder::Builder(const Builder& outer, const Function& begun)
    : function_(begun), bodies_(outer.bodies_) {
  for (ValueId id = 0; id < begun.parameters.size(); ++id) parameters_.push_back(id);
  for (const Node& node : begun.nodes) regions_ = std::max(regions_, node.region);
  function_.results.clear();
  function_.result_names.clear();
}

Value Builder::parameter(std::string name, Type type, AxisPlacements placements, Loc loc) {
  try {
    GW_REQUIRE(is_valid(type), "parameter: ", name, " has no valid type: got ", to_string(type));
    resolve(function_.mesh, placements);
  } catch (const Error& error) {
    fail(error, loc);
  }
  auto id = static_cast<ValueId>(function_.types.size());
  parameters_.push_back(id);
  function_.parameters.push_back({std::move(name), std::move(placements)});
  function_.types.push_back(std::move(type));
  return {this, id};
}

void Builder::result(std::string name, Value value, Loc loc) {
  if (value.empty() || &value.builder() != this) {
    fail({ErrorKind::kInvalid,
          cat("result: ", name,
              value.empty() ? " is an empty value" : " belongs to another function")},
         loc);
  }
  function_.results.push_back(value.id());
  function_.result_names.push_back(std::move(name));
}

Value Builder::constant(Type type, double value, Loc loc) {
  return emit1(Op::constant, {}, {{"dims", type.dims}, {"dtype", type.dtype}, {"value", value}},
               loc);
}

Value Builder::shard(Value value, const AxisPlacements& placements, int priority, Loc loc) {
  try {
    require_own({value}, Op::constrain);
    if (auto wrong = internal::placements_mistake(value.type(), function_.mesh, placements,
                                                  internal::Cuts::kAny))
      throw Error(ErrorKind::kInvalid, "shard: " + *wrong);
  } catch (const Error& error) {
    fail(error, loc);
  }
  return emit1(Op::constrain, {value},
               {{"placements", to_string(placements)}, {"priority", int64_t{priority}}}, loc);
}

void Builder::set_priorities(Value parameter, std::vector<int> priorities, Loc loc) {
  const auto at = std::ranges::lower_bound(parameters_, parameter.id());  // Ids as traced ascend.
  const auto allowed = [](int priority) {
    return priority >= 0 && priority <= kAnnotationPriorityMax;
  };
  try {
    GW_REQUIRE(at != parameters_.end() && parameter.is(Value(this, *at)),
               "priorities: expected a parameter of this function");
    Parameter& said = function_.parameters[static_cast<size_t>(at - parameters_.begin())];
    GW_REQUIRE(priorities.size() == said.placements.size(), "priorities: expected one for each of ",
               said.placements.size(), " placements of \"", said.name, "\", got ",
               priorities.size());
    GW_REQUIRE(std::ranges::all_of(priorities, allowed), "priorities: expected numbers from 0 to ",
               kAnnotationPriorityMax, " for \"", said.name, "\"");
    const bool all_first = std::ranges::all_of(priorities, [](int p) { return p == 0; });
    said.priorities = all_first ? std::vector<int>() : std::move(priorities);
  } catch (const Error& error) {
    fail(error, loc);
  }
}

std::vector<Value> Builder::emit(Op op, const std::vector<Value>& inputs, Attrs attrs, Loc loc,
                                 std::shared_ptr<const Function> body) {
  try {
    require_own(inputs, op);
    Node node{.op = op, .attrs = std::move(attrs), .region = region_, .body = std::move(body)};
    std::vector<Type> types;
    for (const Value& input : inputs) {
      node.inputs.push_back(input.id());
      types.push_back(input.type());
    }
    types = infer_types(op, types, node.attrs, node.body.get());
    NodeInfo info{.origin = origin_, .reason = reason_};
    info.loc = origin_ == kNone ? intern_loc(loc, {}) : function_.infos[origin_].loc;
    return append(std::move(node), std::move(types), info);
  } catch (const Error& error) {
    fail(error, loc);
  }
}

Value Builder::emit1(Op op, const std::vector<Value>& inputs, Attrs attrs, Loc loc) {
  return emit(op, inputs, std::move(attrs), loc)[0];
}

std::vector<Value> Builder::clone(NodeId id, const std::vector<Value>& inputs, Reason reason) {
  Node node = function_.nodes[id];
  GW_ASSERT(inputs.size() == node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    GW_ASSERT(inputs[i].type() == function_.types[node.inputs[i]]);
    node.inputs[i] = inputs[i].id();
  }
  node.region = 0;
  auto first = function_.types.begin() + node.first_result;
  std::vector<Type> types(first, first + node.results);
  NodeInfo info{.loc = function_.infos[id].loc, .origin = id, .reason = reason};
  return append(std::move(node), std::move(types), info);
}

void Builder::prune(NodeId first, std::vector<Value>& keep) {
  if (first >= function_.nodes.size()) return;
  std::vector<bool> live(function_.types.size(), false);
  for (const Value& value : keep) live[value.id()] = true;
  for (auto id = static_cast<NodeId>(function_.nodes.size()); id-- > first;) {
    const Node& node = function_.nodes[id];
    auto begin = live.begin() + node.first_result;
    if (std::find(begin, begin + node.results, true) == begin + node.results) continue;
    for (ValueId input : node.inputs) live[input] = true;
    std::fill(begin, begin + node.results, true);
  }
  std::vector<Node> nodes(function_.nodes.begin() + first, function_.nodes.end());
  std::vector<NodeInfo> infos(function_.infos.begin() + first, function_.infos.end());
  ValueId base = nodes[0].first_result;
  std::vector<Type> types(function_.types.begin() + base, function_.types.end());
  function_.nodes.resize(first);
  function_.infos.resize(first);
  function_.types.resize(base);
  std::vector<ValueId> now(live.size());
  std::iota(now.begin(), now.end(), ValueId{0});
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    ValueId old = node.first_result;
    if (!live[old]) continue;
    for (ValueId& input : node.inputs) input = now[input];
    auto from = types.begin() + (old - base);
    std::vector<Type> own(from, from + node.results);
    std::vector<Value> made = append(std::move(node), std::move(own), infos[i]);
    for (size_t r = 0; r < made.size(); ++r) now[old + r] = made[r].id();
  }
  for (Value& value : keep) value = {this, now[value.id()]};
}

Function Builder::build() {
  parameters_first();
  end_trace();
  trace_ = std::make_shared<internal::Trace>(this);
  Function built = std::move(function_);
  parameters_.clear();
  function_ = {};
  locs_.clear();
  scope_ = kNone;
  region_ = regions_ = 0;
  return built;
}

void Builder::end_trace() {
  trace_->function = function_.name;
  trace_->builder = nullptr;
}

// Parameters may be declared while ops are traced (an optimizer's moments); in a function they come
// first.
void Builder::parameters_first() {
  const ValueId count = function_.value_count();
  std::vector<ValueId> now(count, kNone);
  ValueId next = 0;
  for (ValueId id : parameters_) now[id] = next++;
  for (ValueId& id : now) {
    if (id == kNone) id = next++;
  }
  std::vector<Type> types(count);
  for (ValueId id = 0; id < count; ++id) types[now[id]] = std::move(function_.types[id]);
  function_.types = std::move(types);
  for (Node& node : function_.nodes) {
    for (ValueId& input : node.inputs) input = now[input];
    if (node.results > 0) node.first_result = now[node.first_result];
  }
  for (ValueId& result : function_.results) result = now[result];
}

std::vector<Value> Builder::append(Node node, std::vector<Type> types, NodeInfo info) {
  node.first_result = static_cast<ValueId>(function_.types.size());
  node.results = static_cast<uint32_t>(types.size());
  std::vector<Value> results;
  results.reserve(node.results);
  for (uint32_t r = 0; r < node.results; ++r) results.emplace_back(this, node.first_result + r);
  for (Type& type : types) function_.types.push_back(std::move(type));
  function_.nodes.push_back(std::move(node));
  function_.infos.push_back(info);
  return results;
}

void Builder::require_own(const std::vector<Value>& values, Op op) const {
  for (size_t i = 0; i < values.size(); ++i) {
    GW_REQUIRE(!values[i].empty(), to_string(op), ": operand ", i, " is an empty value");
    GW_REQUIRE(&values[i].builder() == this, to_string(op), ": operand ", i,
               " belongs to another function: \"", values[i].builder().function_.name,
               "\", expected \"", function_.name, "\"");
    GW_REQUIRE(values[i].id() < function_.types.size(), to_string(op), ": operand ", i,
               " is of a function that was built already");
  }
}

// The error as the user sees it: in which function and scopes, at which line.
void Builder::fail(Error error, Loc loc) const {
  if (!error.where().at.empty()) throw error;
  std::string place = cat("function \"", function_.name, "\"");
  for (uint32_t scope = scope_; scope != kNone; scope = function_.locs[scope].parent)
    place = cat(function_.locs[scope].scope, " in ", place);
  error.add_context(place);
  std::string at = to_string(loc);
  if (origin_ != kNone) at = line_of(function_, origin_);
  throw error.add_where({.at = at});
}

uint32_t Builder::intern_loc(Loc loc, const std::string& scope) {
  if (!loc.known() && scope.empty()) return scope_;
  auto next = static_cast<uint32_t>(function_.locs.size());
  auto [found, is_new] = locs_.try_emplace({loc.file, loc.line, scope, scope_}, next);
  if (is_new) function_.locs.push_back({loc.file, loc.line, scope, scope_});
  return found->second;
}

Builder::Scope::Scope(Builder& builder, std::string name, Loc loc)
    : builder_(builder), saved_(builder.scope_) {
  builder_.scope_ = builder_.intern_loc(loc, name);
}
Builder::Scope::~Scope() { builder_.scope_ = saved_; }

Builder::Region::Region(Builder& builder) : builder_(builder), saved_(builder.region_) {
  // A region within a region is part of it: the outer one is recomputed as a unit.
  if (builder_.region_ == 0) builder_.region_ = ++builder_.regions_;
}
Builder::Region::~Region() { builder_.region_ = saved_; }

Builder::Derived::Derived(Builder& builder, NodeId origin, Reason reason)
    : builder_(builder), saved_origin_(builder.origin_), saved_reason_(builder.reason_) {
  builder_.origin_ = origin;
  builder_.reason_ = reason;
}
Builder::Derived::~Derived() {
  builder_.origin_ = saved_origin_;
  builder_.reason_ = saved_reason_;
}

}  // namespace gangway
