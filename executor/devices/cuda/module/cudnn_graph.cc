#include "executor/devices/cuda/module/cudnn_graph.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr int64_t kAlignmentBytes = 16;          // For tensors.
constexpr int64_t kScratchAlignmentBytes = 256;  // For parts of the scratchpad.
constexpr int64_t kConfigsMax = 16;
constexpr const char* kLabel = "a graph";

int64_t aligned(int64_t bytes) { return align_up(bytes, kScratchAlignmentBytes); }

// cuDNN's name for a type of attributes.
template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendDescriptor_t>) return CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

}  // namespace

// A descriptor while it is filled. After an error nothing more is asked of cuDNN.
class CudnnGraph::Part {
 public:
  Part(CudnnGraph& graph, cudnnBackendDescriptorType_t type)
      : cudnn_(graph.plan_.cudnn_), status_(graph.status_) {
    check([&] { return cudnn_.create(type, &made_); });
    graph.plan_.parts_.emplace_back(made_, cudnn_.destroy);
  }
  template <class T>
  Part& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    check([&] {
      return cudnn_.set(made_, name, attribute_type<T>(), static_cast<int64_t>(values.size()),
                        static_cast<const void*>(values.data()));
    });
    return *this;
  }
  template <class T>
  Part& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  cudnnBackendDescriptor_t finalize() {
    check([&] { return cudnn_.finalize(made_); });
    return made_;
  }

 private:
  template <class Call>
  void check(const Call& call) {
    if (status_.ok()) status_ = cudnn_.status_of(call(), kLabel);
  }
  const Cudnn& cudnn_;
  Status& status_;
  cudnnBackendDescriptor_t made_ = nullptr;
};

// ---- Tensors ----

CudnnGraph::Tensor CudnnGraph::tensor(const Sizes& sizes, const Sizes& strides,
                                      cudnnDataType_t type, bool is_virtual, bool is_number) {
  const auto id = static_cast<int64_t>(tensors_.size()) + 1;
  Part part(*this, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  part.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(sizes))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignmentBytes)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, is_number);
  tensors_.push_back(part.finalize());
  return {id};
}

CudnnGraph::Tensor CudnnGraph::memory(const Sizes& sizes, const Sizes& strides,
                                      cudnnDataType_t type) {
  const Tensor made = tensor(sizes, strides, type, false, false);
  plan_.memory_.push_back(made.id);
  return made;
}

CudnnGraph::Tensor CudnnGraph::scratch(const Sizes& sizes) {
  const Tensor made = tensor(sizes, dense(sizes), CUDNN_DATA_FLOAT, false, false);
  plan_.scratch_.push_back({made.id, plan_.workspace_offset_});
  plan_.workspace_offset_ +=
      aligned(sizes[0] * sizes[1] * sizes[2] * sizes[3] * static_cast<int64_t>(sizeof(float)));
  return made;
}

CudnnGraph::Tensor CudnnGraph::inside(const Sizes& sizes, const Sizes& strides,
                                      cudnnDataType_t type) {
  return tensor(sizes, strides, type, true, false);
}

CudnnGraph::Tensor CudnnGraph::number(Number value) {
  const Sizes one = {1, 1, 1, 1};
  const auto type = std::holds_alternative<float>(value) ? CUDNN_DATA_FLOAT : CUDNN_DATA_INT32;
  const Tensor made = tensor(one, one, type, false, true);
  plan_.numbers_.push_back({made.id, value});
  return made;
}

cudnnBackendDescriptor_t CudnnGraph::descriptor(Tensor tensor) const {
  return tensors_.at(static_cast<size_t>(tensor.id - 1));
}

// ---- Operations ----

void CudnnGraph::add(Part& operation) { operations_.push_back(operation.finalize()); }

CudnnGraph::Tensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Inputs inputs, Tensor out,
                                         cudnnDataType_t math, int64_t axis) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Part what(*this, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, math);
  if (axis >= 0) what.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  Part operation(*this, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what.finalize());
  size_t place = 0;
  for (const Tensor input : inputs) operation.set(kInputs[place++], descriptor(input));
  add(operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor(out)));
  return out;
}

CudnnGraph::Tensor CudnnGraph::reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out) {
  Part what(*this, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  what.set(CUDNN_ATTR_REDUCTION_OPERATOR, op).set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Part operation(*this, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  add(operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, what.finalize())
          .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor(in))
          .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor(out)));
  return out;
}

CudnnGraph::Tensor CudnnGraph::matmul(Tensor a, Tensor b, Tensor out) {
  Part what(*this, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  what.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Part operation(*this, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  add(operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, what.finalize())
          .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor(a))
          .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor(b))
          .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor(out)));
  return out;
}

CudnnGraph::Tensor CudnnGraph::reshape(Tensor in, Tensor out) {
  Part operation(*this, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  add(operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor(in))
          .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor(out)));
  return out;
}

// ---- Plans ----

// Goes through the heuristic's answers, best first, and keeps the first plan that cuDNN can
// compile.
void CudnnGraph::ask(cudnnBackendDescriptor_t heuristic) {
  const Cudnn& cudnn = plan_.cudnn_;
  std::vector<cudnnBackendDescriptor_t> answers;
  for (int64_t i = 0; i < kConfigsMax; ++i) {
    cudnnBackendDescriptor_t made = nullptr;
    cudnn.create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &made);
    answers.push_back(plan_.parts_.emplace_back(made, cudnn.destroy).get());
  }
  int64_t count = 0;
  status_ = cudnn.status_of(
      cudnn.get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                kConfigsMax, &count, static_cast<void*>(answers.data())),
      kLabel);
  if (!status_.ok()) return;
  answers.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, kConfigsMax)));
  status_ = {StatusKind::kUnsupported, false, "cudnn: no kernel does this graph"};
  for (cudnnBackendDescriptor_t answer : answers) {
    status_ = {};
    Part plan(*this, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan_.plan_ = plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, answer).finalize();
    if (status_.ok()) return;
  }
}

Result<CudnnPlan> CudnnGraph::plan(const CudnnTarget& target) {
  Part all(*this, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  all.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const cudnnBackendDescriptor_t>(operations_));
  if (target.handle != nullptr) all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  const cudnnBackendDescriptor_t graph = all.finalize();
  cudnnBackendDescriptor_t card = nullptr;
  if (target.handle == nullptr) {
    Part part(*this, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    part.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
             std::span<const char>(target.card.data(), target.card.size()));
    card = part.finalize();
  }
  if (!status_.ok()) return to_error(status_);
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    status_ = {};
    Part part(*this, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    part.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (card != nullptr) part.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card);
    const cudnnBackendDescriptor_t heuristic = part.finalize();
    if (status_.ok()) ask(heuristic);
    if (status_.ok()) break;
  }
  if (!status_.ok()) return to_error(status_);
  int64_t workspace = 0, count = 0;
  const Cudnn& cudnn = plan_.cudnn_;
  status_ = cudnn.status_of(cudnn.get(plan_.plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &count, static_cast<void*>(&workspace)),
                            kLabel);
  if (!status_.ok()) return to_error(status_);
  plan_.scratch_bytes_ = plan_.workspace_offset_ + workspace;
  return std::move(plan_);
}

Status CudnnPlan::run(cudnnHandle_t handle, cudaStream_t stream, std::string_view label,
                      std::span<void* const> addresses, std::byte* scratch) const {
  std::vector<int64_t> ids = memory_;
  std::vector<const void*> data(addresses.begin(), addresses.end());
  for (const Scratch& part : scratch_) {
    ids.push_back(part.id);
    data.push_back(scratch + part.offset);
  }
  for (const Number& number : numbers_) {
    ids.push_back(number.id);
    data.push_back(std::visit([](const auto& held) -> const void* { return &held; }, number.value));
  }
  const void* const workspace = scratch + workspace_offset_;
  cudnnBackendDescriptor_t made = nullptr;
  cudnnStatus_t code = cudnn_.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made);
  const CudnnDescriptor pack(made, cudnn_.destroy);
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       size_t count, const void* values) {
    if (code == CUDNN_STATUS_SUCCESS)
      code = cudnn_.set(made, name, type, static_cast<int64_t>(count), values);
  };
  set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
  set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.size(),
      static_cast<const void*>(data.data()));
  set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      static_cast<const void*>(&workspace));
  if (code == CUDNN_STATUS_SUCCESS) code = cudnn_.finalize(made);
  if (code == CUDNN_STATUS_SUCCESS) code = cudnn_.set_stream(handle, stream);
  if (code == CUDNN_STATUS_SUCCESS) code = cudnn_.execute(handle, plan_, made);
  return cudnn_.status_of(code, label);
}

}  // namespace gangway::cuda
