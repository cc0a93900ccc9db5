// EvaluatedGraph: computes a graph of cuDNN's number by number, as its operations are added, so
// that tests can check its results. Numbers are doubles whatever their type.
#pragma once

#include <cmath>
#include <vector>

#include "executor/devices/cuda/module/graph_builder.h"
#include "runtime/base/error.h"

namespace gangway::cuda {

class EvaluatedGraph final : public GraphBuilder {
 public:
  // `memory`: the numbers that memory() tensors read and write, in the order of its calls.
  explicit EvaluatedGraph(std::vector<std::vector<double>*> memory) : memory_(std::move(memory)) {}

  using GraphBuilder::inside;
  using GraphBuilder::pointwise;
  Tensor memory(const Sizes& sizes, const Sizes& strides, cudnnDataType_t) override {
    return add({sizes, strides, memory_.at(used_++), {}});
  }
  Tensor scratch(const Sizes& sizes) override { return inside(sizes); }
  Tensor inside(const Sizes& sizes, const Sizes& strides, cudnnDataType_t) override {
    size_t end = 1;
    for (size_t d = 0; d < 4; ++d) end += static_cast<size_t>((sizes[d] - 1) * strides[d]);
    return add({sizes, strides, nullptr, std::vector<double>(end)});
  }
  Tensor number(Number value) override {
    const double number = std::visit([](auto held) { return static_cast<double>(held); }, value);
    return add({{1, 1, 1, 1}, {1, 1, 1, 1}, nullptr, {number}});
  }

  Tensor pointwise(cudnnPointwiseMode_t mode, Inputs inputs, Tensor out, cudnnDataType_t,
                   int64_t axis) override {
    const std::vector<Tensor> in(inputs);
    each(at(out).sizes, [&](const Sizes& i) {
      const auto x = [&](size_t n) { return element(in.at(n), i); };
      element(out, i) = [&] {
        switch (static_cast<int>(mode)) {
          case CUDNN_POINTWISE_ADD: return x(0) + x(1);
          case CUDNN_POINTWISE_SUB: return x(0) - x(1);
          case CUDNN_POINTWISE_MUL: return x(0) * x(1);
          case CUDNN_POINTWISE_DIV: return x(0) / x(1);
          case CUDNN_POINTWISE_EXP: return std::exp(x(0));
          case CUDNN_POINTWISE_LOG: return std::log(x(0));
          case CUDNN_POINTWISE_IDENTITY: return x(0);
          case CUDNN_POINTWISE_CMP_GE: return x(0) >= x(1) ? 1.0 : 0.0;
          case CUDNN_POINTWISE_BINARY_SELECT: return x(2) != 0 ? x(0) : x(1);
          case CUDNN_POINTWISE_GEN_INDEX:
            return static_cast<double>(i.at(static_cast<size_t>(axis)));
          default: throw Error(ErrorKind::kBug, "an operation that is not evaluated");
        }
      }();
    });
    return out;
  }
  Tensor reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out) override {
    const bool is_max = op == CUDNN_REDUCE_TENSOR_MAX;
    each(at(out).sizes, [&](const Sizes& i) { element(out, i) = is_max ? -INFINITY : 0; });
    each(at(in).sizes, [&](const Sizes& i) {
      double& to = element(out, i);
      to = is_max ? std::max(to, element(in, i)) : to + element(in, i);
    });
    return out;
  }
  Tensor matmul(Tensor a, Tensor b, Tensor out) override {
    each(at(out).sizes, [&](const Sizes& i) {
      double sum = 0;
      for (int64_t k = 0; k < at(a).sizes[3]; ++k)
        sum += element(a, {i[0], i[1], i[2], k}) * element(b, {i[0], i[1], k, i[3]});
      element(out, i) = sum;
    });
    return out;
  }
  Tensor reshape(Tensor in, Tensor out) override {
    at(out).numbers = at(in).given != nullptr ? *at(in).given : at(in).numbers;
    return out;
  }

 private:
  struct Held {
    Sizes sizes, strides;
    std::vector<double>* given;
    std::vector<double> numbers;
  };

  Tensor add(Held held) {
    tensors_.push_back(std::move(held));
    return {static_cast<int64_t>(tensors_.size())};
  }
  Held& at(Tensor tensor) { return tensors_.at(static_cast<size_t>(tensor.id - 1)); }
  double& element(Tensor tensor, const Sizes& index) {
    Held& held = at(tensor);
    int64_t offset = 0;
    for (size_t d = 0; d < 4; ++d) offset += held.sizes[d] == 1 ? 0 : index[d] * held.strides[d];
    auto& numbers = held.given != nullptr ? *held.given : held.numbers;
    return numbers.at(static_cast<size_t>(offset));
  }
  template <class Body>
  static void each(const Sizes& sizes, const Body& body) {
    Sizes i;
    for (i[0] = 0; i[0] < sizes[0]; ++i[0])
      for (i[1] = 0; i[1] < sizes[1]; ++i[1])
        for (i[2] = 0; i[2] < sizes[2]; ++i[2])
          for (i[3] = 0; i[3] < sizes[3]; ++i[3]) body(i);
  }

  std::vector<std::vector<double>*> memory_;
  size_t used_ = 0;
  std::vector<Held> tensors_;
};

}  // namespace gangway::cuda
