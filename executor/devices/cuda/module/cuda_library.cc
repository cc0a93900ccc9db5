// Products through cuBLASLt, attention through cuDNN. Operations that they lack, such as products
// of experts, are kUnimplemented: the caller has kernels for them.
#include <variant>

#include "executor/devices/cuda/module/cuda_driver.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr uint64_t kWorkspaceBytesMax = uint64_t{32} << 20;
constexpr uint32_t kAlignmentBytes = 16;  // Views may begin anywhere in a row.

// cuBLASLt counts by columns: the rows of ours are its columns, so it is asked for c^T = b^T a^T.
struct Product {
  cublasLtMatmulDescOpaque_t operation = {};
  cublasLtMatrixLayoutOpaque_t a = {}, b = {}, c = {};  // Its a is our b, and the reverse.
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;
  bool is_double = false, accumulate = false, bias = false, added = false, has_pre = false;
};

// The object of a PreparedHandle.
using Operation = std::variant<Product, std::shared_ptr<const FusedOperation>>;

Prepared prepared(Operation operation, int64_t scratch_bytes) {
  auto* kept = new Operation(std::move(operation));
  return {PreparedHandle{reinterpret_cast<uint64_t>(kept)}, scratch_bytes};
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF64: return CUDA_R_64F;
    case DType::kBool:
    case DType::kI32:
    case DType::kF32: break;
  }
  return CUDA_R_32F;
}

bool offered(const MatmulDesc& desc) {
  if (desc.a != desc.b || !is_float(desc.a)) return false;
  return desc.c == desc.a || (desc.a == DType::kBF16 && desc.c == DType::kF32);
}

// cuBLASLt can keep the input of a GELU, but of a ReLU's input only a mask.
bool offered(const Epilogue& epilogue) {
  if (epilogue.added && (epilogue.bias || epilogue.keep_input)) return false;
  if (epilogue.gradient) {
    const bool alone = !epilogue.added && !epilogue.bias && !epilogue.keep_input;
    return alone && epilogue.activation == Activation::kGeluTanh;
  }
  switch (epilogue.activation) {
    case Activation::kNone:
    case Activation::kRelu: return !epilogue.keep_input;
    case Activation::kGeluTanh: return true;
    case Activation::kSilu: break;
  }
  return false;
}

cublasLtEpilogue_t epilogue_of(const Epilogue& e) {
  if (e.gradient) return CUBLASLT_EPILOGUE_DGELU;
  switch (e.activation) {
    case Activation::kRelu: return e.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      if (e.keep_input)
        return e.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return e.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::kNone:
    case Activation::kSilu: break;
  }
  return e.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
cublasStatus_t set(Product& product, cublasLtMatmulDescAttributes_t which, const T& value) {
  return cublasLtMatmulDescSetAttribute(&product.operation, which, static_cast<const void*>(&value),
                                        sizeof(value));
}

// A matrix of ours with `columns` in each of its `rows`.
cublasStatus_t make_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows,
                           int64_t columns, int64_t leading, int64_t batch, int64_t stride) {
  if (leading == 0) leading = columns;
  if (stride == 0) stride = rows * leading;
  if (stride == kSameMatrix) stride = 0;
  const auto count = static_cast<int32_t>(batch);
  cublasStatus_t status =
      cublasLtMatrixLayoutInit(&layout, data_type(dtype), static_cast<uint64_t>(columns),
                               static_cast<uint64_t>(rows), leading);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  status = cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof(count));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof(stride));
}

cublasStatus_t describe(Product& p, const MatmulDesc& d, const Epilogue& epilogue) {
  const bool is_double = d.a == DType::kF64;
  const bool is_tf32 = d.allow_tf32 && d.a == DType::kF32 && d.b == DType::kF32;
  const cublasComputeType_t in_f32 = is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasStatus_t status = cublasLtMatmulDescInit(
      &p.operation, is_double ? CUBLAS_COMPUTE_64F : in_f32, is_double ? CUDA_R_64F : CUDA_R_32F);
  const auto then = [&status](const auto& step) {
    if (status == CUBLAS_STATUS_SUCCESS) status = step();
  };
  const cublasOperation_t first = d.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = d.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  then([&] { return set(p, CUBLASLT_MATMUL_DESC_TRANSA, first); });
  then([&] { return set(p, CUBLASLT_MATMUL_DESC_TRANSB, second); });
  then([&] { return set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue)); });
  if (epilogue.keep_input || epilogue.gradient) {
    const int64_t leading = d.n, stride = d.m * d.n;
    then([&] { return set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, leading); });
    then([&] { return set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, stride); });
  }
  const int64_t b_rows = d.transpose_b ? d.n : d.k, b_columns = d.transpose_b ? d.k : d.n;
  const int64_t a_rows = d.transpose_a ? d.k : d.m, a_columns = d.transpose_a ? d.m : d.k;
  then([&] { return make_layout(p.a, d.b, b_rows, b_columns, d.ldb, d.batch, d.batch_stride_b); });
  then([&] { return make_layout(p.b, d.a, a_rows, a_columns, d.lda, d.batch, d.batch_stride_a); });
  then([&] { return make_layout(p.c, d.c, d.m, d.n, d.ldc, d.batch, d.batch_stride_c); });
  return status;
}

cublasStatus_t choose(cublasLtHandle_t cublas, Product& p) {
  cublasLtMatmulPreferenceOpaque_t preference = {};
  cublasStatus_t status = cublasLtMatmulPreferenceInit(&preference);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &kWorkspaceBytesMax, sizeof(kWorkspaceBytesMax));
  for (auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    cublasLtMatmulPreferenceSetAttribute(&preference, which, &kAlignmentBytes,
                                         sizeof(kAlignmentBytes));
  }
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  status = cublasLtMatmulAlgoGetHeuristic(cublas, &p.operation, &p.a, &p.b, &p.c, &p.c, &preference,
                                          1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (count == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  p.algorithm = found.algo;
  p.workspace_bytes = found.workspaceSize;
  return CUBLAS_STATUS_SUCCESS;
}

Error not_offered(std::string_view what) {
  return {ErrorKind::kUnimplemented, cat("cuda: no library offers ", what)};
}

}  // namespace

Result<Prepared> CudaDriver::prepare(const MatmulDesc& desc, const Epilogue& epilogue) {
  if (!offered(desc) || !offered(epilogue)) return not_offered("this product");
  enter();
  Product product;
  product.is_double = desc.a == DType::kF64;
  product.accumulate = desc.accumulate;
  product.bias = epilogue.bias;
  product.added = epilogue.added;
  product.has_pre = epilogue.keep_input || epilogue.gradient;
  cublasStatus_t status = describe(product, desc, epilogue);
  if (status == CUBLAS_STATUS_SUCCESS) status = choose(cublas_, product);
  if (status != CUBLAS_STATUS_SUCCESS) return to_error(status_of(status, "matmul"));
  return prepared(product, static_cast<int64_t>(product.workspace_bytes));
}

Result<Prepared> CudaDriver::prepare(const GroupedMatmulDesc&) {
  return not_offered("products of experts");
}

Result<Prepared> CudaDriver::prepare_attention(const AttentionShape& shape, AttentionPass pass) {
  enter();
  auto made = attention_.prepare(shape, pass);
  if (!made.ok()) return made.error();
  const int64_t scratch_bytes = made.value()->scratch_bytes();
  return prepared(made.take(), scratch_bytes);
}
Result<Prepared> CudaDriver::prepare_attention(const AttentionShape& shape) {
  return prepare_attention(shape, AttentionPass::kForward);
}
Result<Prepared> CudaDriver::prepare_attention_grad(const AttentionShape& shape) {
  return prepare_attention(shape, AttentionPass::kGradient);
}

void CudaDriver::destroy(PreparedHandle operation) {
  enter();
  delete pointer_of<Operation*>(operation);
}

Status CudaDriver::run(At at, PreparedHandle handle, std::span<void* const> tensors,
                       void* scratch) {
  enter();
  const auto& operation = *pointer_of<const Operation*>(handle);
  if (const auto* attention = std::get_if<std::shared_ptr<const FusedOperation>>(&operation))
    return (*attention)->run(stream_of(at.stream), at.label, tensors, scratch);
  Product call = std::get<Product>(operation);  // A copy: its pointers are those of this call.
  size_t next = 3;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (call.bias) status = set(call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, tensors[next++]);
  if (status == CUBLAS_STATUS_SUCCESS && call.has_pre)
    status = set(call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, tensors[next]);
  if (status != CUBLAS_STATUS_SUCCESS) return status_of(status, at.label);
  const void* to_add = call.added ? tensors[3] : tensors[2];
  const double alpha = 1, beta = call.accumulate || call.added ? 1 : 0;
  const auto alpha_single = static_cast<float>(alpha), beta_single = static_cast<float>(beta);
  const void* by_alpha = &alpha_single;
  const void* by_beta = &beta_single;
  if (call.is_double) by_alpha = &alpha, by_beta = &beta;
  status = cublasLtMatmul(cublas_, &call.operation, by_alpha, tensors[1], &call.a, tensors[0],
                          &call.b, by_beta, to_add, &call.c, tensors[2], &call.c, &call.algorithm,
                          scratch, call.workspace_bytes, stream_of(at.stream));
  return status_of(status, at.label);
}

}  // namespace gangway::cuda
