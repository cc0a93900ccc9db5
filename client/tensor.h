// HostTensor: a whole tensor in the client's memory, row-major; StateTensor: a name for one that
// lies on devices.
//
// Example:
//   const HostTensor row = HostTensor::of<float>({2}, {1, 2});
//   const std::span<const float> elements = row.as<float>();  // They live as long as `row`.
//
// Threads: a value.
// Ownership: owns its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/types/box.h"
#include "ir/types/type.h"
#include "runtime/base/error.h"

namespace gangway {

// The element type of a C++ type; bf16 has none: use bytes.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return DType::kI32;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::kF32;
  } else {
    static_assert(std::is_same_v<T, double>, "no tensor element has this type");
    return DType::kF64;
  }
}

struct HostTensor {
  Type type;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  explicit HostTensor(Type t) : type(std::move(t)), bytes(static_cast<size_t>(type.bytes())) {}

  // A scalar, so that runs read {{"lr", 1e-3f}, {"step", 3.0f}}.
  template <class T>
    requires std::is_arithmetic_v<T>
  HostTensor(T scalar) : HostTensor(of<T>({}, {&scalar, 1})) {}

  template <class T>
  static HostTensor of(Dims dims, std::span<const T> values) {
    HostTensor tensor(Type{dtype_of<T>(), std::move(dims)});
    GW_REQUIRE(static_cast<int64_t>(values.size()) == tensor.type.elements(),
               "tensor: ", to_string(tensor.type), " has ", tensor.type.elements(),
               " elements, got ", values.size());
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
  }
  template <class T>
  static HostTensor of(Dims dims, const std::vector<T>& values) {
    return of<T>(std::move(dims), std::span<const T>(values));
  }

  // Throws when the two public members do not fit one another.
  void require_whole() const {
    GW_REQUIRE(static_cast<int64_t>(bytes.size()) == type.bytes(), "tensor: ", to_string(type),
               " has ", type.bytes(), " bytes, got ", bytes.size());
  }

  template <class T>
  std::span<const T> as() const& {
    GW_REQUIRE(type.dtype == dtype_of<T>(), "tensor: holds ", to_string(type), ", read as ",
               to_string(dtype_of<T>()));
    require_whole();
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<size_t>(type.elements())};
  }
  // A copy, since a view of a tensor that is about to go would be one of dead memory.
  template <class T>
  std::vector<T> as() const&& {
    const std::span<const T> elements = as<T>();
    return {elements.begin(), elements.end()};
  }
};

// A tensor of a slice's states as files and other tools know it: a state, or one of the layers that
// a state stacks (ir/graph/program.h), or one of several tensors that lie side by side in it.
struct StateTensor {
  std::string name;  // "params.layers.3.attn.q"
  Type type;
  std::string state;           // "params.layers.attn.qkv"
  std::optional<int64_t> row;  // Row of dimension 0 of the state; none: the tensor is all of it.
  // Position in dimension 1 of the state or the layer, which the tensor itself does not have; none:
  // the tensor is not a part of another.
  std::optional<int64_t> part = {};

  // Returns the same elements as a part of the state.
  Box in_state(Box box) const;
};

}  // namespace gangway
