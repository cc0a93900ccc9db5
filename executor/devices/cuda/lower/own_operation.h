// OwnOperation: attention, its gradient, or a product of experts as launches of Gangway's own
// kernels, for cases that the driver's libraries do not offer.
//
// Invariants: tensors as in Driver::run(). Sums run in one order: the same bits on every run.
// Threads: a value; run() as Driver::launch().
// Errors: kUnimplemented where a block's tiles do not fit into the device's shared memory, or types
// have no kernel.
// Cost: one launch; three for the gradient of attention. Products of experts go through the tensor
// cores in bf16, and in f32 where operands may be rounded to TF32; so does attention in bf16 where
// heads are of at most 128 elements, a multiple of 8. All else is sums of plain multiplications.
//
// Example:
//   auto own = OwnOperation::attention(driver, shape);
//   own.value().run(driver, at, {{q, k, v, out, lse}}, scratch);
#pragma once

#include <span>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"
#include "executor/devices/cuda/lower/command.h"

namespace gangway::cuda {

struct OwnOperation {
  // `has_starts`: two tensors i32[] behind the operands say at run time where in the sequence the
  // queries and the keys begin.
  static Result<OwnOperation> attention(Driver& driver, const AttentionShape& shape,
                                        bool has_starts = false);
  static Result<OwnOperation> attention_grad(Driver& driver, const AttentionShape& shape,
                                             bool has_starts = false);
  static Result<OwnOperation> grouped_matmul(Driver& driver, const GroupedMatmulDesc& desc);

  Status run(Driver& driver, At at, std::span<void* const> tensors, void* scratch) const;

  int64_t scratch_bytes = 0;
  // Launches. An argument's address says by its base which tensor it is; 0 is the scratch, the
  // first tensor 1.
  std::vector<Command> commands;
};

}  // namespace gangway::cuda
