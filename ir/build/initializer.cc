#include "ir/build/initializer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/types/limits.h"
#include "ir/verify/verify_internal.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

std::array<int32_t, 2> key_words(const std::string& state, uint64_t seed) {
  Hasher hasher;
  hasher.add(state);
  hasher.add(seed);
  const Hash128 hash = hasher.finish();
  return {static_cast<int32_t>(hash.high >> 32), static_cast<int32_t>(hash.low >> 32)};
}

// Words of the key of a state or a layer of this name, or of the keys of the tensors in it.
std::vector<int32_t> words_of(const StateSpec& spec, const std::string& name, uint64_t seed) {
  std::vector<int32_t> words;
  const auto add = [&](const std::string& of) {
    for (const int32_t word : key_words(of, seed)) words.push_back(word);
  };
  if (spec.parts.empty()) add(name);
  const std::string front = name.substr(0, name.rfind('.') + 1);
  for (const std::string& part : spec.parts) add(front + part);
  return words;
}

// i32[2], or i32[parts, 2].
Value key_of(Builder& builder, const StateSpec& spec, const std::string& state, uint64_t seed,
             Loc loc) {
  const std::vector<int32_t> words = words_of(spec, state, seed);
  if (!spec.parts.empty()) return reshape(table(builder, words, loc), {-1, 2}, loc);
  auto half = [&](int32_t word) { return builder.constant(i32({1}), word, loc); };
  return concat({half(words[0]), half(words[1])}, 0, loc);
}

// Keys of a stack's layers, each from the layer's own name: i32[count, 2], or i32[count, parts, 2].
Value keys_of_layers(Builder& builder, const StateSpec& spec, const std::string& state,
                     uint64_t seed, Loc loc) {
  std::vector<int32_t> words;
  const int64_t count = spec.stacked->count;
  for (int64_t row = 0; row < count; ++row) {
    const auto more = words_of(spec, layer_name(state, *spec.stacked, row), seed);
    words.insert(words.end(), more.begin(), more.end());
  }
  const Dims dims = spec.parts.empty() ? Dims{count, 2} : Dims{count, -1, 2};
  return reshape(table(builder, words, loc), dims, loc);
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

// Whether a node behind the first `nodes` reads one of the first `values`, or a result is one.
bool uses_first(const Function& function, uint32_t nodes, uint32_t values) {
  auto is_first = [values](ValueId id) { return id < values; };
  if (std::ranges::any_of(function.results, is_first)) return true;
  return std::any_of(function.nodes.begin() + nodes, function.nodes.end(),
                     [&](const Node& node) { return std::ranges::any_of(node.inputs, is_first); });
}

class InitializerTrace {
 public:
  InitializerTrace(const StateSpec& spec, const std::string& state, uint64_t seed, const Mesh& mesh,
                   Loc loc)
      : spec_(spec),
        state_(state),
        what_("state " + internal::shown(state)),
        seed_(seed),
        mesh_(mesh),
        loc_(loc) {}

  Function run() const {
    require_valid();
    if (!spec_.stacked) return whole();
    std::optional<Function> by_layer = layer_by_layer();
    return by_layer ? std::move(*by_layer) : repeated();
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw Error(ErrorKind::kInvalid, cat(what_, ": ", message), {.at = to_string(loc_)});
  }

  void require_valid() const {
    GW_REQUIRE(spec_.init != nullptr, what_, ": the initialiser is missing");
    if (auto wrong = internal::type_mistake(spec_.type)) refuse(*wrong);
    if (!spec_.stacked) return;
    const size_t words = 2 * std::max<size_t>(1, spec_.parts.size());
    const int64_t count = spec_.stacked->count, most = static_cast<int64_t>(kAttrIntsMax / words);
    if (count < 1 || count > most) {
      refuse(cat("it stacks ", count, " layers: expected 1 to ", most));
    }
    if (spec_.type.rank() == 0 || spec_.type.dims[0] != count) {
      refuse(cat("it stacks ", count, " layers, one a row: got ", internal::spell(spec_.type)));
    }
  }

  // The first value of a whole state, or of a layer.
  Value first_value(Builder& builder, Value key) const {
    const Type type = layer_type(spec_);
    Value value = spec_.init(builder, key, type);
    if (value.empty() || &value.builder() != &builder || value.type() != type) {
      refuse(cat("the initialiser must return a value of its builder: expected ",
                 internal::spell(type), ", got ",
                 value.empty() ? "nothing" : internal::spell(value.type())));
    }
    return value;
  }

  Function whole() const {
    Builder builder("init", mesh_);
    Value key = key_of(builder, spec_, state_, seed_, loc_);
    const auto key_nodes = static_cast<uint32_t>(builder.function().nodes.size());
    return finish(builder, first_value(builder, key), key_nodes);
  }

  // Nothing where layers do not use their keys.
  std::optional<Function> layer_by_layer() const {
    Builder builder("init", mesh_);
    const ScanOperands operands{.length = spec_.stacked->count,
                                .stacked = keys_of_layers(builder, spec_, state_, seed_, loc_),
                                .name = "init.layer"};
    bool uses_key = false;
    Value value = scan(
                      builder, operands,
                      [&](const ScanStep& at) -> Scanned {
                        Value first = first_value(at.builder, at.slices);
                        uses_key =
                            uses_first(at.builder.function(), 0, at.slices.leaf().id() + 1) ||
                            first.id() == at.slices.leaf().id();
                        return {.stacked = first};
                      },
                      loc_)
                      .stacked;
    if (!uses_key) return std::nullopt;
    builder.result("value", value, loc_);
    return builder.build();
  }

  // Layers that all begin alike.
  Function repeated() const {
    Builder builder("init", mesh_);
    Value key = key_of(builder, spec_, state_, seed_, loc_);
    const auto key_nodes = static_cast<uint32_t>(builder.function().nodes.size());
    Value layer = first_value(builder, key);
    std::vector<int64_t> map(static_cast<size_t>(layer.rank()));
    std::iota(map.begin(), map.end(), int64_t{1});
    return finish(builder, broadcast_in(layer, spec_.type.dims, map, loc_), key_nodes);
  }

  Function finish(Builder& builder, Value value, uint32_t key_nodes) const {
    builder.result("value", value, loc_);
    Function function = builder.build();
    if (!uses_first(function, key_nodes, key_nodes)) drop_first(function, key_nodes);
    return function;
  }

  const StateSpec& spec_;
  const std::string& state_;
  const std::string what_;
  const uint64_t seed_;
  const Mesh& mesh_;
  const Loc loc_;
};

}  // namespace

Type layer_type(const StateSpec& spec) {
  Type type = spec.type;
  if (spec.stacked && type.rank() > 0) type.dims.erase(type.dims.begin());
  return type;
}

Function trace_initializer(const StateSpec& spec, const std::string& state, uint64_t seed,
                           const Mesh& mesh, Loc loc) {
  return InitializerTrace(spec, state, seed, mesh, loc).run();
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

StateSpec zeros_like(const StateSpec& spec, Loc loc) {
  StateSpec like = zeros(spec.type, loc);
  like.stacked = spec.stacked;
  return like;
}

StateSpec side_by_side(const StateSpec& part, const std::vector<std::string>& names, Loc loc) {
  GW_REQUIRE(!part.stacked && part.parts.empty() && part.type.rank() > 0,
             "side_by_side: expected a tensor with rows, and no stack, got ", to_string(part.type));
  StateSpec all{.type = part.type, .init = {}, .parts = names};
  all.type.dims.insert(all.type.dims.begin() + 1, static_cast<int64_t>(names.size()));
  all.init = [part, count = std::ssize(names), loc](Builder& builder, Value keys, const Type&) {
    Dims wide = part.type.dims;
    wide.insert(wide.begin() + 1, 1);
    std::vector<Value> values;
    for (int64_t i = 0; i < count; ++i) {
      const Value key = reshape(slice(keys, 0, i, i + 1, 1, loc), {2}, loc);
      values.push_back(reshape(part.init(builder, key, part.type), wide, loc));
    }
    return concat(values, 1, loc);
  };
  return all;
}

StateTree stacked(const StateTree& layer, int64_t count, int64_t first, const std::string& base) {
  return layer.map([&](const std::string& name, const StateSpec& spec) {
    GW_REQUIRE(!spec.stacked, "stacked: \"", name, "\" is a stack of layers already");
    const auto components = name.empty() ? 0 : std::ranges::count(name, '.') + 1;
    StateSpec stack = spec;
    stack.type.dims.insert(stack.type.dims.begin(), count);
    stack.stacked = StackedLayers{.first = first,
                                  .count = count,
                                  .name_tail = static_cast<uint32_t>(components),
                                  .base = base};
    return stack;
  });
}

}  // namespace gangway
