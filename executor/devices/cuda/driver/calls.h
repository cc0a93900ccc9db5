// Arguments of the driver's table: handles, kernel launches, library operations.
//
// Types of our own, so that nothing outside the module knows an NVIDIA header. Products, grouped
// products and attention are described by the same structs as the CPU kernels': one meaning on all
// devices.
//
// Threads: values.
// Ownership: a call keeps no pointer of its arguments, except to the memory that the operation
// itself reads and writes, until it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/kernels/attention.h"
#include "executor/kernels/grouped_matmul.h"
#include "executor/kernels/matmul.h"

namespace gangway::cuda {

// A thing of the driver's; 0 is none. Copies name the same thing.
template <class Tag>
struct Handle {
  uint64_t bits = 0;
  explicit operator bool() const { return bits != 0; }
  bool operator==(const Handle&) const = default;
};
using StreamHandle = Handle<struct StreamTag>;      // cudaStream_t
using EventHandle = Handle<struct EventTag>;        // cudaEvent_t
using GraphHandle = Handle<struct GraphTag>;        // cudaGraphExec_t
using ModuleHandle = Handle<struct ModuleTag>;      // cudaLibrary_t
using KernelHandle = Handle<struct KernelTag>;      // cudaKernel_t
using PreparedHandle = Handle<struct PreparedTag>;  // a cuBLASLt algorithm, a cuDNN plan
using CommHandle = Handle<struct CommTag>;          // ncclComm_t

// Among operations that are ready on several streams of a card, urgent ones get multiprocessors
// first.
enum class StreamPriority : uint8_t { kNormal, kUrgent };

// The stream of an operation, and its name in reports and errors ("%14 dot"). The label need only
// live during the call.
struct At {
  StreamHandle stream;
  std::string_view label;
};

enum class AccessKind : uint8_t { kRead, kWrite, kReadWrite };

// Bound of steps between rows that are copied in one operation: CUDA's largest pitch.
inline constexpr int64_t kRowStepMax = INT32_MAX;

// Bytes that an operation may touch. kWrite promises that it reads none of them.
struct Access {
  const void* data = nullptr;
  int64_t bytes = 0;
  AccessKind kind = AccessKind::kRead;
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

// `arguments` point to the values of the kernel's parameters, in order, as in cuLaunchKernel.
// `accesses` declare all memory that the kernel touches: a card ignores them, the emulated driver
// holds the kernel to them.
struct Launch {
  KernelHandle kernel;
  Grid grid, block;
  uint32_t shared_bytes = 0;  // Dynamic shared memory of one block.
  std::span<const void* const> arguments;
  std::span<const Access> accesses;
};

// CUDA C++ to be compiled at run time for the device's own architecture.
struct ModuleSource {
  std::string name;  // Name of the file in compile errors.
  // Begins with #include "executor/devices/cuda/kernels/kernel_source.h" and ends with
  // GW_KERNEL_TABLE(module, GW_ENTRY(a_kernel), ...).
  std::string text;
};

enum class Activation : uint8_t { kNone, kRelu, kGeluTanh, kSilu };

// c = activation(op(a) op(b) + bias), each column of c with its own bias; or
// c = op(a) op(b) + added, and nothing else; or
// c = op(a) op(b) * the activation's slope at pre[batch, m, n], and nothing else.
struct Epilogue {
  bool bias = false;   // bias[n], of c's type.
  bool added = false;  // added[batch, m, n], of c's type, dense as c is.
  Activation activation = Activation::kNone;
  bool keep_input = false;  // Also store what the activation was applied to: pre[batch, m, n].
  bool gradient = false;    // pre is read.
};

// A library operation, prepared once for its shapes. `scratch_bytes` is part of the plan's memory.
struct Prepared {
  PreparedHandle operation;
  int64_t scratch_bytes = 0;
};

// One message of a grouped exchange: to or from one peer.
struct Message {
  enum Direction : uint8_t { kSend, kReceive };
  Direction direction = kSend;
  uint32_t peer = 0;
  void* data = nullptr;
  int64_t bytes = 0;
};

// The id of a new group: one member creates it and sends it to all others. Like ncclUniqueId.
struct CommId {
  std::byte bytes[128] = {};
};

struct GpuInfo {
  std::string name;           // "NVIDIA H100 80GB HBM3"
  uint32_t architecture = 0;  // 80, 90, 100
  int64_t memory_bytes = 0;   // Memory of the card.
  int64_t memory_free = 0;    // When it was opened; 0 before.
  uint32_t multiprocessors = 0;
  uint32_t shared_bytes_max = 0;  // Limit for one block.
};

}  // namespace gangway::cuda
