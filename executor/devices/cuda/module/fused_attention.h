// FusedAttention: attention by cuDNN on one device, where this was built with it and the machine
// has it.
//
// cuDNN is loaded when the first shape that it may support is prepared. Where there was no cuDNN to
// build with, without_cudnn.cc is compiled instead.
//
// Threads: any.
// Ownership: operations are shared and outlive it.
// Errors: kUnimplemented, saying why, for what cuDNN can't do: the caller then uses its own
// kernels.
// Cost: the first prepare() loads half a gigabyte; each of a new shape creates a handle of its own
// and compiles a kernel (1-4 s).
//
// Example:
//   auto prepared = fused.prepare(shape, AttentionPass::kForward);
//   if (prepared.ok()) prepared.value()->run(stream, label, {{q, k, v, out, lse}}, scratch);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "executor/devices/cuda/driver/status.h"
#include "executor/kernels/attention.h"
#include "runtime/base/result.h"

namespace gangway::cuda {

enum class AttentionPass : uint8_t { kForward, kGradient };

class FusedOperation {
 public:
  virtual ~FusedOperation() = default;
  virtual int64_t scratch_bytes() const = 0;
  // Tensors as in Driver::run().
  virtual Status run(cudaStream_t stream, std::string_view label, std::span<void* const> tensors,
                     void* scratch) const = 0;
};

class FusedAttention {
 public:
  explicit FusedAttention(uint32_t architecture);
  ~FusedAttention();
  // For the calling thread's device, always the same one.
  Result<std::shared_ptr<const FusedOperation>> prepare(const AttentionShape& shape,
                                                        AttentionPass pass);

 private:
  struct Made {
    AttentionShape shape;
    AttentionPass pass;
    std::weak_ptr<const FusedOperation> operation;
  };
  [[maybe_unused]] const uint32_t architecture_;
  std::mutex mutex_;
  std::vector<Made> made_;  // The layers of a model have one shape.
};

}  // namespace gangway::cuda
