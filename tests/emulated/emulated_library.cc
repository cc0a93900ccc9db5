// Products and attention of the emulated driver: the CPU kernels compute them.
#include <cmath>
#include <cstring>

#include "executor/devices/cuda/kernels/tiled/matrix_unit.h"
#include "tests/emulated/elements.h"
#include "tests/emulated/emulated_driver.h"
#include "tests/emulated/prepared_operation.h"

namespace gangway::emulated {

using namespace cuda;

namespace {

constexpr int64_t kScratchBytes = 256;  // Every operation takes some, so that it is checked too.

int64_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<int64_t>(size_of(dtype)) * elements;
}

DType lse_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

TensorUse matrix(AccessKind kind, DType dtype, int64_t rows, int64_t columns, int64_t leading,
                 int64_t batch, int64_t batch_stride) {
  if (leading == 0) leading = columns;
  const bool one = batch_stride == kSameMatrix;
  if (batch_stride == 0) batch_stride = rows * leading;
  return {.kind = kind,
          .matrices = one ? 1 : batch,
          .matrix_stride = one ? 0 : bytes_of(dtype, batch_stride),
          .rows = rows,
          .row_stride = bytes_of(dtype, leading),
          .row_bytes = bytes_of(dtype, columns)};
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::isnan(x) ? x : std::fmax(x, 0);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: break;
  }
  return x / (1 + std::exp(-x));
}

double gelu_slope(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

// The product alone, dense and as wide as it is accumulated.
MatmulDesc product_of(const MatmulDesc& desc) {
  MatmulDesc product = desc;
  if (product.c == DType::kBF16) product.c = DType::kF32;
  product.ldc = product.batch_stride_c = 0;
  product.accumulate = false;
  return product;
}

// Rounds all bytes up to the end of the tensor, including gaps between its rows.
std::vector<float> rounded_to_tf32(const TensorUse& use, const std::byte* data) {
  std::vector<float> all(static_cast<size_t>(use.bytes()) / sizeof(float));
  std::memcpy(all.data(), data, all.size() * sizeof(float));
  for (float& x : all) x = float_of_bits(round_to_tf32(x));
  return all;
}

// The first two tensors of a product, rounded to tf32 where the product allows it.
class Operands {
 public:
  Operands(bool allow_tf32, DType a, DType b)
      : is_tf32_(allow_tf32 && a == DType::kF32 && b == DType::kF32) {}
  template <class Product>
  void multiply(const std::vector<TensorUse>& uses, std::span<std::byte* const> tensors,
                const Product& product) const {
    if (!is_tf32_) return product(tensors[0], tensors[1]);
    product(rounded_to_tf32(uses[0], tensors[0]).data(),
            rounded_to_tf32(uses[1], tensors[1]).data());
  }

 private:
  bool is_tf32_;
};

struct MatmulTail {
  MatmulDesc desc;
  Epilogue epilogue;

  void apply(const std::byte* product, DType wide, std::span<std::byte* const> tensors) const {
    const int64_t ldc = desc.ldc == 0 ? desc.n : desc.ldc;
    const int64_t stride = desc.batch_stride_c == 0 ? desc.m * ldc : desc.batch_stride_c;
    std::byte* const c = tensors[2];
    const std::byte* const bias = epilogue.bias ? tensors[3] : nullptr;
    std::byte* const pre = epilogue.keep_input ? tensors[epilogue.bias ? 4 : 3] : nullptr;
    const std::byte* const added = epilogue.added ? tensors[3] : nullptr;
    const std::byte* const at_pre = epilogue.gradient ? tensors[3] : nullptr;
    for (int64_t i = 0; i < desc.batch * desc.m * desc.n; ++i) {
      const int64_t column = i % desc.n, row = i / desc.n % desc.m, b = i / desc.n / desc.m;
      const int64_t at = b * stride + row * ldc + column;
      double x = element(wide, product, i);
      if (desc.accumulate) x += element(desc.c, c, at);
      if (bias != nullptr) x += element(desc.c, bias, column);
      if (added != nullptr) x += element(desc.c, added, at);
      if (pre != nullptr) set_element(desc.c, pre, i, x);
      const double y = at_pre != nullptr ? x * gelu_slope(element(desc.c, at_pre, i))
                                         : activated(epilogue.activation, x);
      set_element(desc.c, c, at, y);
    }
  }
};

TensorUse positions(AccessKind kind, const AttentionShape& shape, int64_t seq, int64_t stride) {
  const int64_t width = shape.heads * shape.head_dim;
  return matrix(kind, shape.dtype, shape.batch * seq, width, stride, 1, 0);
}

TensorUse lse_use(AccessKind kind, const AttentionShape& shape) {
  return TensorUse::dense(kind,
                          bytes_of(lse_type(shape.dtype), shape.batch * shape.heads * shape.seq_q));
}

}  // namespace

// Answers kOk if a library offers `what`, else kUnsupported.
Status EmulatedDriver::offers(std::string_view what) const {
  if (core_.options.library == Library::kAll) return {};
  return {StatusKind::kUnsupported, false, cat("no library offers ", what)};
}

Result<Prepared> EmulatedDriver::add(std::shared_ptr<PreparedOperation> operation) {
  const auto lock = enter("prepare");
  prepared_.push_back(std::move(operation));
  return Prepared{PreparedHandle{prepared_.size()}, kScratchBytes};
}

Result<Prepared> EmulatedDriver::prepare(const MatmulDesc& desc, const Epilogue& epilogue) {
  if (epilogue.gradient && epilogue.activation != Activation::kGeluTanh)
    return to_error({StatusKind::kUnsupported, false, "no library offers the gradient of that"});
  if (epilogue.bias || epilogue.added || epilogue.activation != Activation::kNone) {
    if (const Status offered = offers("epilogues"); !offered.ok()) return to_error(offered);
  }
  const MatmulDesc wide = product_of(desc);
  std::shared_ptr<const Matmul> matmul;
  try {
    matmul = std::make_shared<const Matmul>(wide);
  } catch (const Error& error) {
    return error;
  }
  auto made = std::make_shared<PreparedOperation>();
  const bool ta = desc.transpose_a, tb = desc.transpose_b;
  made->uses = {matrix(AccessKind::kRead, desc.a, ta ? desc.k : desc.m, ta ? desc.m : desc.k,
                       desc.lda, desc.batch, desc.batch_stride_a),
                matrix(AccessKind::kRead, desc.b, tb ? desc.n : desc.k, tb ? desc.k : desc.n,
                       desc.ldb, desc.batch, desc.batch_stride_b),
                matrix(desc.accumulate ? AccessKind::kReadWrite : AccessKind::kWrite, desc.c,
                       desc.m, desc.n, desc.ldc, desc.batch, desc.batch_stride_c)};
  if (epilogue.bias)
    made->uses.push_back(TensorUse::dense(AccessKind::kRead, bytes_of(desc.c, desc.n)));
  if (epilogue.added || epilogue.gradient)
    made->uses.push_back(
        TensorUse::dense(AccessKind::kRead, bytes_of(desc.c, desc.batch * desc.m * desc.n)));
  if (epilogue.keep_input)
    made->uses.push_back(
        TensorUse::dense(AccessKind::kWrite, bytes_of(desc.c, desc.batch * desc.m * desc.n)));
  made->compute = [matmul, wide, operands = Operands(desc.allow_tf32, desc.a, desc.b),
                   uses = made->uses,
                   tail = MatmulTail{desc, epilogue}](std::span<std::byte* const> tensors) {
    Parallel par(1);
    std::vector<std::byte> scratch(matmul->scratch_bytes(1) + 64);
    std::vector<std::byte> product(
        static_cast<size_t>(bytes_of(wide.c, wide.batch * wide.m * wide.n)));
    operands.multiply(uses, tensors, [&](const void* a, const void* b) {
      matmul->run(par, a, b, product.data(), scratch.data());
    });
    tail.apply(product.data(), wide.c, tensors);
  };
  return add(std::move(made));
}

Result<Prepared> EmulatedDriver::prepare(const GroupedMatmulDesc& desc) {
  if (Status status = offers("products of experts"); !status.ok()) return to_error(status);
  std::shared_ptr<const GroupedMatmul> matmul;
  try {
    matmul = std::make_shared<const GroupedMatmul>(desc);
  } catch (const Error& error) {
    return error;
  }
  const int64_t rows = desc.groups * desc.slots;
  const int64_t x = rows * desc.d, y = rows * desc.h, w = desc.experts * desc.d * desc.h;
  const bool weight = desc.kind == GroupedKind::kGradWeight;
  const bool forward = desc.kind == GroupedKind::kForward;
  auto made = std::make_shared<PreparedOperation>();
  made->uses = {TensorUse::dense(AccessKind::kRead, bytes_of(desc.in0, forward || weight ? x : y)),
                TensorUse::dense(AccessKind::kRead, bytes_of(desc.in1, weight ? y : w)),
                TensorUse::dense(AccessKind::kWrite, bytes_of(desc.out, weight    ? w
                                                                        : forward ? y
                                                                                  : x))};
  // Rows beyond the sizes belong to no expert and are not read.
  const bool by_sizes = desc.capacity == 0;
  made->uses[0].must_be_initialised = !by_sizes;
  made->uses[1].must_be_initialised = !by_sizes || !weight;
  if (by_sizes) {
    const int64_t bytes = bytes_of(DType::kI32, desc.groups * desc.experts);
    made->uses.insert(made->uses.begin() + 2, TensorUse::dense(AccessKind::kRead, bytes));
  }
  made->compute = [matmul, by_sizes, operands = Operands(desc.allow_tf32, desc.in0, desc.in1),
                   uses = made->uses](std::span<std::byte* const> tensors) {
    Parallel par(1);
    std::vector<std::byte> scratch(matmul->scratch_bytes(1) + 64);
    const auto* sizes = reinterpret_cast<const int32_t*>(by_sizes ? tensors[2] : nullptr);
    operands.multiply(uses, tensors, [&](const void* in0, const void* in1) {
      matmul->run(par, in0, in1, sizes, tensors.back(), scratch.data());
    });
  };
  return add(std::move(made));
}

Result<Prepared> EmulatedDriver::prepare_attention(const AttentionShape& shape) {
  if (Status status = offers("attention"); !status.ok()) return to_error(status);
  auto made = std::make_shared<PreparedOperation>();
  made->uses = {positions(AccessKind::kRead, shape, shape.seq_q, shape.stride_q),
                positions(AccessKind::kRead, shape, shape.seq_k, shape.stride_k),
                positions(AccessKind::kRead, shape, shape.seq_k, shape.stride_v),
                positions(AccessKind::kWrite, shape, shape.seq_q, shape.stride_out),
                lse_use(AccessKind::kWrite, shape)};
  made->compute = [shape](std::span<std::byte* const> t) {
    Parallel par(1);
    std::vector<std::byte> scratch(attention_scratch_bytes(shape, 1) + 64);
    attention(par, shape, t[0], t[1], t[2], t[3], t[4], scratch.data());
  };
  return add(std::move(made));
}

Result<Prepared> EmulatedDriver::prepare_attention_grad(const AttentionShape& shape) {
  if (Status status = offers("the gradient of attention"); !status.ok()) return to_error(status);
  auto made = std::make_shared<PreparedOperation>();
  const auto use = [&](AccessKind kind, int64_t seq, int64_t stride) {
    return positions(kind, shape, seq, stride);
  };
  constexpr AccessKind kIn = AccessKind::kRead, kOut = AccessKind::kWrite;
  made->uses = {use(kIn, shape.seq_q, shape.stride_q),
                use(kIn, shape.seq_k, shape.stride_k),
                use(kIn, shape.seq_k, shape.stride_v),
                use(kIn, shape.seq_q, shape.stride_out),
                lse_use(kIn, shape),
                use(kIn, shape.seq_q, shape.stride_out),
                use(kOut, shape.seq_q, shape.stride_q),
                use(kOut, shape.seq_k, shape.stride_k),
                use(kOut, shape.seq_k, shape.stride_v)};
  made->compute = [shape](std::span<std::byte* const> t) {
    Parallel par(1);
    std::vector<std::byte> scratch(attention_grad_scratch_bytes(shape, 1) + 64);
    attention_grad(par, shape, {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]},
                   scratch.data());
  };
  return add(std::move(made));
}

void EmulatedDriver::destroy(PreparedHandle) {}

Status EmulatedDriver::run(At at, PreparedHandle handle, std::span<void* const> tensors,
                           void* scratch) {
  const auto lock = enter(at.label);
  if (!handle || handle.bits > prepared_.size()) return misuse(at.label, "runs no operation");
  const PreparedOperation* operation = prepared_[handle.bits - 1].get();
  if (tensors.size() != operation->uses.size())
    return misuse(at.label,
                  cat("has ", tensors.size(), " tensors: expected ", operation->uses.size()));
  std::vector<Access> accesses = {{scratch, kScratchBytes, AccessKind::kWrite}};
  for (size_t i = 0; i < tensors.size(); ++i)
    accesses.push_back({tensors[i], operation->uses[i].bytes(), operation->uses[i].kind});
  const std::vector<void*> addresses(tensors.begin(), tensors.end());
  const auto run = [this, operation, addresses, label = std::string(at.label)] {
    run_prepared(*operation, addresses, label);
    return Status{};
  };
  return enqueue(at, {{}, std::move(accesses), [run] { return Operation{.run = run}; }});
}

void EmulatedDriver::run_prepared(const PreparedOperation& operation,
                                  const std::vector<void*>& addresses, const std::string& label) {
  std::vector<std::byte*> data;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const TensorUse& use = operation.uses[i];
    data.push_back(core_.bytes_at(addresses[i]));
    if (use.bytes() > 0 && data.back() == nullptr) return;
    if (use.kind == AccessKind::kWrite || !use.must_be_initialised) continue;
    use.for_each_row([&](int64_t offset) {
      core_.check_initialised(static_cast<std::byte*>(addresses[i]) + offset, use.row_bytes, label);
    });
  }
  operation.compute(data);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const TensorUse& use = operation.uses[i];
    if (use.kind == AccessKind::kRead) continue;
    use.for_each_row([&](int64_t offset) {
      core_.mark_initialised(static_cast<std::byte*>(addresses[i]) + offset, use.row_bytes);
    });
  }
}

}  // namespace gangway::emulated
