// Command: one call of the driver that a step of a compiled function makes, ready but for the
// pointers that change from call to call.
//
// A lowering says which tensor of its node an argument is; once memory is planned the compiled
// function turns that into an Address, and a run turns the Address into a pointer.
//
// Threads: a value, immutable once placed; issue() on the device's thread.
// Cost: issue() 50 ns and what the driver's call costs; nothing is allocated.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"
#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/lower/address.h"
#include "ir/graph/function.h"

namespace gangway::cuda {

// A tensor of the node, or a part of its scratchpad.
struct TensorRef {
  enum Of : uint8_t { kInput, kResult, kScratch };
  Of of = kInput;
  uint32_t index = 0;
  int64_t offset = 0;   // In bytes.
  NodeId node = kNone;  // Another node's input or result.
};

struct Argument {
  bool is_tensor = false;
  TensorRef ref;
  Address address;  // Once memory is planned.
  int64_t bytes = 0;
  AccessKind access = AccessKind::kRead;
  std::vector<std::byte> value;  // Bytes of an argument that is no tensor.
  // Not 0: `value` holds a value for each device of the mesh, so many bytes apart.
  size_t value_stride = 0;
};

struct Command {
  enum class Kind : uint8_t {
    kLaunch,   // A kernel.
    kLibrary,  // A prepared operation; the last argument is its scratch.
    kCopy,     // Argument 0 to argument 1.
  };
  static constexpr size_t kArgumentsMax = 160;
  static constexpr size_t kPackedMax = 7 * kManyTensors;

  Kind kind = Kind::kLaunch;
  KernelHandle kernel;
  Grid grid, block;
  uint32_t shared_bytes = 0;
  PreparedHandle operation;
  // For a kernel over many tensors: the first `packed` arguments are tensors whose addresses are
  // one parameter of the kernel, an array of `packed_capacity`. 0: there is no such parameter.
  uint32_t packed = 0, packed_capacity = 0;
  std::vector<Argument> arguments;

  Status issue(Driver& driver, At at, std::byte* const* bases, uint32_t mesh_device) const;
};

template <class T>
Argument value(const T& x) {
  static_assert(std::is_trivially_copyable_v<T>);
  Argument made;
  made.value.resize(sizeof(T));
  std::memcpy(made.value.data(), static_cast<const void*>(&x), sizeof(T));
  return made;
}

// Each device of a mesh gets its own element of `each`.
template <class T>
Argument value_by_device(const std::vector<T>& each) {
  static_assert(std::is_trivially_copyable_v<T>);
  Argument made;
  made.value.resize(each.size() * sizeof(T));
  made.value_stride = sizeof(T);
  std::memcpy(made.value.data(), each.data(), made.value.size());
  return made;
}

}  // namespace gangway::cuda
