// OwnOperation: attention, its gradient, or a product of experts as launches of Gangway's own
// kernels: what a driver prepares where no library offers it.
//
// Invariants: tensors as in Driver::run(). Sums run in one order: the same bits on every run.
// Threads: a value; run() as Driver::launch(). Ownership: the driver outlives it. Errors:
// kUnimplemented where a block's tiles do not fit into the device's shared memory, or types have no
// kernel. Cost: one launch; three for the gradient of attention. Products are sums of plain
// multiplications: no tensor cores.
//
//   auto own = OwnOperation::attention(driver, shape);
//   own.value().run(driver, at, {{q, k, v, out, lse}}, scratch);
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "executor/devices/cuda/driver.h"
#include "executor/devices/cuda/kernels/tiled/attention_size.h"
#include "executor/devices/cuda/kernels/tiled/grouped_size.h"

namespace gangway::cuda {

class OwnOperation {
 public:
  static Result<OwnOperation> attention(Driver& driver, const AttentionShape& shape);
  static Result<OwnOperation> attention_grad(Driver& driver, const AttentionShape& shape);
  static Result<OwnOperation> grouped_matmul(Driver& driver, const GroupedMatmulDesc& desc);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  Status run(Driver& driver, At at, std::span<void* const> tensors, void* scratch) const;

 private:
  // Of run(): which of its tensors, or the scratch.
  static constexpr size_t kScratch = SIZE_MAX;
  struct Tensor {
    size_t index = 0;
    int64_t bytes = 0;
    AccessKind kind = AccessKind::kRead;
  };
  struct Step {
    KernelHandle kernel;
    int64_t blocks = 0;
    uint32_t threads = 0, shared_bytes = 0;
    std::vector<Tensor> tensors;  // The kernel's parameters; the size comes last.
  };

  std::variant<AttentionSize, GroupedSize> size_;
  int64_t scratch_bytes_ = 0;
  std::vector<Step> steps_;
};

}  // namespace gangway::cuda
