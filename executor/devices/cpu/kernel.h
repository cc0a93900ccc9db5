// Kernel: one node of a local function bound to code that runs it, with the arguments of that code.
//
// Lowering happens once, when a function is compiled: it picks the kernel for the node's types,
// builds whatever that kernel keeps (a oneDNN primitive, a fused program), and says how much
// scratch it needs. A run then only turns operands into pointers: base of the frame plus a fixed
// offset.
//
// Threads: a Kernel is immutable; the device's thread calls it.
// Errors: lowering throws kInvalid or kUnimplemented with the user's line; running cannot fail,
// except for a user's kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "executor/devices/lower/address.h"
#include "executor/devices/lower/node_view.h"
#include "executor/kernels/parallel.h"
#include "ir/graph/function.h"

namespace gangway {
class TrustedFiles;
}  // namespace gangway

namespace gangway::cpu {

struct KernelArgs {
  Parallel& par;
  std::byte* const* bases;
  const Address* inputs;
  const Address* results;
  Address scratch;
  uint32_t mesh_device = 0;

  std::byte* at(const Address& address) const { return bases[address.base] + address.offset; }
  const void* in(size_t i) const { return at(inputs[i]); }
  void* out(size_t i) const { return at(results[i]); }
  void* scratch_data() const { return at(scratch); }
  template <class T>
  T scalar(size_t i) const {
    return *static_cast<const T*>(in(i));
  }
};
// Alignment of parts of a scratchpad: a cache line.
inline constexpr int64_t kScratchAlignment = 64;

using Kernel = std::function<void(const KernelArgs&)>;

struct Lowered {
  Kernel kernel;
  int64_t scratch_bytes = 0;
};

// A node as a lowering sees it.
struct LowerCall : NodeView {
  int threads = 1;                        // Threads of the device: each needs scratch.
  const TrustedFiles* trusted = nullptr;  // Null: any library may be loaded.
};

// A kernel for any node except those of KernelFamily::kStep, which are steps of their own. Scans
// and calls have one only if there is no body to run: it copies the carries.
Lowered lower(const LowerCall& call);

// One function for each family (executor/devices/lower/kernel_family.h), in a file of its own.
Lowered lower_elementwise(const LowerCall& call);
Lowered lower_fusion(const LowerCall& call);
Lowered lower_fill(const LowerCall& call);
Lowered lower_copy(const LowerCall& call);
Lowered lower_move(const LowerCall& call);
Lowered lower_window(const LowerCall& call);
Lowered lower_mesh(const LowerCall& call);
Lowered lower_reduce(const LowerCall& call);
Lowered lower_dot(const LowerCall& call);
Lowered lower_index(const LowerCall& call);
Lowered lower_random(const LowerCall& call);
Lowered lower_softmax(const LowerCall& call);
Lowered lower_norm(const LowerCall& call);
Lowered lower_attention(const LowerCall& call);
Lowered lower_moe(const LowerCall& call);
Lowered lower_adamw(const LowerCall& call);
Lowered lower_custom(const LowerCall& call);
Lowered lower_carries(const LowerCall& call);

// Throws kUnimplemented naming the op, its types and the user's line.
[[noreturn]] void not_on_cpu(const LowerCall& call, const std::string& why);

}  // namespace gangway::cpu
