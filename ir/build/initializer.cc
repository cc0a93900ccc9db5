#include "ir/build/initializer.h"

#include <algorithm>
#include <utility>

#include "ir/build/ops.h"
#include "ir/verify/verify_internal.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

Value key_of(Builder& builder, const std::string& state, uint64_t seed, Loc loc) {
  Hasher hasher;
  hasher.add(state);
  hasher.add(seed);
  Hash128 hash = hasher.finish();
  auto half = [&](uint64_t word) {
    return builder.constant(i32({1}), static_cast<int32_t>(word >> 32), loc);
  };
  return concat({half(hash.high), half(hash.low)}, 0, loc);
}

// Removes the first `count` nodes, which nothing uses: their results are values 0 .. count - 1.
void drop_first(Function& function, uint32_t count) {
  function.types.erase(function.types.begin(), function.types.begin() + count);
  function.nodes.erase(function.nodes.begin(), function.nodes.begin() + count);
  function.infos.erase(function.infos.begin(), function.infos.begin() + count);
  for (Node& node : function.nodes) {
    node.first_result -= count;
    for (ValueId& input : node.inputs) input -= count;
  }
  for (NodeInfo& info : function.infos) {
    if (info.origin != kNone) info.origin = info.origin < count ? kNone : info.origin - count;
  }
  for (ValueId& result : function.results) result -= count;
}

bool uses_first(const Function& function, uint32_t count) {
  auto is_first = [count](ValueId id) { return id < count; };
  if (std::ranges::any_of(function.results, is_first)) return true;
  return std::any_of(function.nodes.begin() + count, function.nodes.end(),
                     [&](const Node& node) { return std::ranges::any_of(node.inputs, is_first); });
}

}  // namespace

Function trace_initializer(const StateSpec& spec, const std::string& state, uint64_t seed,
                           const Mesh& mesh, Loc loc) {
  std::string what = "state " + internal::shown(state);
  GW_REQUIRE(spec.init != nullptr, what, ": the initialiser is missing");
  if (auto wrong = internal::type_mistake(spec.type)) {
    throw Error(ErrorKind::kInvalid, cat(what, ": ", *wrong), {.at = to_string(loc)});
  }
  Builder builder("init", mesh);
  Value key = key_of(builder, state, seed, loc);
  uint32_t key_nodes = static_cast<uint32_t>(builder.function().nodes.size());
  Value value = spec.init(builder, key, spec.type);
  if (!value || &value.builder() != &builder || value.type() != spec.type) {
    throw Error(ErrorKind::kInvalid,
                cat(what, ": the initialiser must return a value of its builder: expected ",
                    internal::spell(spec.type), ", got ",
                    value ? internal::spell(value.type()) : "nothing"),
                {.at = to_string(loc)});
  }
  builder.result("value", value, loc);
  Function function = builder.build();
  if (!uses_first(function, key_nodes)) drop_first(function, key_nodes);
  return function;
}

StateSpec zeros(Type type, Loc loc) { return filled(std::move(type), 0.0, loc); }

StateSpec filled(Type type, double value, Loc loc) {
  return {std::move(type), [value, loc](Builder& builder, Value, const Type& of) {
            return builder.constant(of, value, loc);
          }};
}

StateSpec normal(Type type, double stddev, Loc loc) {
  return {std::move(type), [stddev, loc](Builder&, Value key, const Type& of) {
            return Operand(random_normal(key, of, loc), loc) * Operand(stddev, loc);
          }};
}

}  // namespace gangway
