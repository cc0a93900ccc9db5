// Matrix products of experts: each row of x meets the matrix of its own expert.
//
//   x[groups, slots, d], w[experts, d, h], sizes i32[groups, experts] -> y[groups, slots, h]
//
// In each group rows are sorted by expert: the first sizes[g, 0] rows belong to expert 0, the next
// sizes[g, 1] to expert 1, ...; rows beyond the sum belong to none and give zeros. With a capacity
// there are no sizes (they may be null): every expert has as many rows. Time follows sizes; memory
// does not: every bound comes from shapes. Sizes that are negative or exceed `slots` are cut to
// what fits, so that a bad route never leaves the buffers.
//
//   kForward:    y[g, s, h]  = x[g, s, d] x w[e]              in0 = x   in1 = w
//   kGradInput:  dx[g, s, d] = dy[g, s, h] x w[e]^T           in0 = dy  in1 = w
//   kGradWeight: dw[e, d, h] = sum of x_e^T x dy_e            in0 = x   in1 = dy
//
// Types (in0, in1 -> out): as in matmul.h. Threads, ownership, errors: as in matmul.h. Rows and
// their sums do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

enum class GroupedKind : uint8_t { kForward, kGradInput, kGradWeight };

struct GroupedMatmulDesc {
  GroupedKind kind = GroupedKind::kForward;
  DType in0 = DType::kF32, in1 = DType::kF32, out = DType::kF32;
  int64_t groups = 1, slots = 0, experts = 0, d = 0, h = 0;
  int64_t capacity = 0;     // Above 0: the rows of each expert, instead of sizes.
  bool allow_tf32 = false;  // On cards f32 operands may be rounded to TF32.
};

class GroupedMatmul {
 public:
  explicit GroupedMatmul(const GroupedMatmulDesc& desc, KernelIsa isa = detect_isa());
  ~GroupedMatmul();
  GroupedMatmul(GroupedMatmul&&) noexcept;
  GroupedMatmul& operator=(GroupedMatmul&&) noexcept;

  size_t scratch_bytes(int threads) const;
  void run(Parallel& par, const void* in0, const void* in1, const int32_t* sizes, void* out,
           void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace gangway
