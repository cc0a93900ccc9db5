// CudnnGraph: a graph given to cuDNN, and the plan into which cuDNN compiles it.
//
// Why: cuDNN has no call "attention". It is given the matrix products and element-wise operations
// that define it, and finds one kernel that does all of them.
//
// Invariants: a plan keeps the descriptors that it was built from.
// Threads: none while it is built; CudnnPlan::run() one call at a time for each handle.
// Errors: the first one stays, and plan() answers with it.
// Cost: plan() up to seconds, since it may compile a kernel; run() about 5 us.
//
// Example:
//   CudnnGraph graph(cudnn);
//   add_attention(graph);  // As in graph_builder.h.
//   Result<CudnnPlan> plan = graph.plan({.handle = handle});
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "executor/devices/cuda/module/cudnn.h"
#include "executor/devices/cuda/module/graph_builder.h"

namespace gangway::cuda {

// The card that a plan is compiled for: that of a handle, or a card that need not exist here,
// described by the JSON that cuDNN writes of a card. A plan of the latter kind can't be run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string_view card;
};

class CudnnPlan {
 public:
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // `scratch`: 256-byte aligned.
  Status run(cudnnHandle_t handle, cudaStream_t stream, std::string_view label,
             std::span<void* const> addresses, std::byte* scratch) const;

 private:
  friend class CudnnGraph;
  struct Scratch {
    int64_t id = 0, offset = 0;
  };
  struct Number {
    int64_t id = 0;
    GraphBuilder::Number value;
  };

  Cudnn cudnn_;
  std::vector<CudnnDescriptor> parts_;  // Descriptors that the plan refers to.
  cudnnBackendDescriptor_t plan_ = nullptr;
  std::vector<int64_t> memory_;  // Ids.
  std::vector<Scratch> scratch_;
  std::vector<Number> numbers_;
  int64_t workspace_offset_ = 0, scratch_bytes_ = 0;
};

class CudnnGraph final : public GraphBuilder {
 public:
  explicit CudnnGraph(const Cudnn& cudnn) { plan_.cudnn_ = cudnn; }

  using GraphBuilder::inside;
  using GraphBuilder::pointwise;
  Tensor memory(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) override;
  Tensor scratch(const Sizes& sizes) override;
  Tensor inside(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) override;
  Tensor number(Number value) override;
  Tensor pointwise(cudnnPointwiseMode_t mode, Inputs inputs, Tensor out, cudnnDataType_t math,
                   int64_t axis) override;
  Tensor reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out) override;
  Tensor matmul(Tensor a, Tensor b, Tensor out) override;
  Tensor reshape(Tensor in, Tensor out) override;

  // kUnimplemented where cuDNN has no kernel for the graph. The graph can't be used afterwards.
  Result<CudnnPlan> plan(const CudnnTarget& target);

 private:
  class Part;

  Tensor tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type, bool is_virtual,
                bool is_number);
  cudnnBackendDescriptor_t descriptor(Tensor tensor) const;
  void add(Part& operation);
  void ask(cudnnBackendDescriptor_t heuristic);

  CudnnPlan plan_;
  std::vector<cudnnBackendDescriptor_t> tensors_, operations_;  // Tensors by id - 1.
  Status status_;
};

}  // namespace gangway::cuda
