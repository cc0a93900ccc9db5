// GraphBuilder: builds a graph of the operations that cuDNN knows, one at a time.
//
// Why an interface: the same few lines that describe attention are given to cuDNN (cudnn_graph.h)
// and, in tests, computed number by number, which shows what they mean without a GPU.
//
// Invariants: all tensors have four dimensions; one of size 1 is repeated where the other operand's
// is larger. Operations come in an order in which they could run.
// Threads: none.
// Errors: kept, and returned by whoever compiles or evaluates the graph.
//
// Example:
//   const auto a = graph.memory({b, h, m, k}, strides, CUDNN_DATA_BFLOAT16);  // addresses[0]
//   const auto c = graph.matmul(a, w, graph.inside({b, h, m, n}));
//   graph.pointwise(CUDNN_POINTWISE_MUL, {c, graph.number(0.5f)}, y);
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <variant>

namespace gangway::cuda {

class GraphBuilder {
 public:
  using Sizes = std::array<int64_t, 4>;
  using Number = std::variant<float, int32_t>;
  struct Tensor {
    int64_t id = 0;
  };
  using Inputs = std::initializer_list<Tensor>;

  virtual ~GraphBuilder() = default;

  // The caller's memory, whose addresses are given in the order of these calls.
  virtual Tensor memory(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) = 0;
  // A part of the scratchpad: f32, dense.
  virtual Tensor scratch(const Sizes& sizes) = 0;
  // A value that is never in memory.
  virtual Tensor inside(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) = 0;
  virtual Tensor number(Number value) = 0;

  // All of these return `out`. `inputs` are cuDNN's x, b and t; `axis` is of
  // CUDNN_POINTWISE_GEN_INDEX.
  virtual Tensor pointwise(cudnnPointwiseMode_t mode, Inputs inputs, Tensor out,
                           cudnnDataType_t math, int64_t axis) = 0;
  virtual Tensor reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out) = 0;
  virtual Tensor matmul(Tensor a, Tensor b, Tensor out) = 0;
  // The same numbers, seen with other sizes and strides.
  virtual Tensor reshape(Tensor in, Tensor out) = 0;

  Tensor inside(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return inside(sizes, dense(sizes), type);
  }
  Tensor pointwise(cudnnPointwiseMode_t mode, Inputs inputs, Tensor out,
                   cudnnDataType_t math = CUDNN_DATA_FLOAT) {
    return pointwise(mode, inputs, out, math, -1);
  }
  static Sizes dense(const Sizes& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }
};

}  // namespace gangway::cuda
