#include <cmath>

#include "executor/devices/cuda/lower/lower.h"
#include "executor/kernels/attention.h"

namespace gangway::cuda {
namespace {

// A block for each head, whose scores lie in shared memory.
void lower_decode(Lowering& call, const AttentionShape& shape) {
  const auto wide =
      static_cast<int64_t>(size_of(shape.dtype == DType::kF64 ? DType::kF64 : DType::kF32));
  const int64_t scores = shape.seq_k * wide;
  if (scores > call.gpu.info().shared_bytes_max / 2) call.refuse("the cache is too long");
  const int64_t blocks = shape.batch * shape.heads;
  if (blocks > INT32_MAX) call.refuse("too many sequences");
  const double scale =
      shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim));
  call.launch(cat("attention_decode_", to_string(shape.dtype)), {static_cast<uint32_t>(blocks)},
              block_threads(shape.seq_k),
              {call.read(0), call.read(1), call.read(2), call.read(3), call.write(0),
               value(shape.heads), value(shape.seq_k), value(shape.head_dim), value(scale)},
              static_cast<uint32_t>(scores));
}

}  // namespace

void lower_attention(Lowering& call) {
  AttentionShape shape = attention_shape(call);
  shape.deterministic = call.numerics.deterministic;
  if (call.out().elements() == 0) return;
  if (call.op() == Op::attention_decode) return lower_decode(call, shape);
  Driver& driver = call.gpu.driver();
  const bool forward = call.op() == Op::attention;
  const size_t fixed = forward ? 3 : 6;
  const bool has_starts = call.inputs() > fixed;
  std::vector<Argument> tensors = call.tensors();
  if (has_starts && !shape.causal) {  // They say nothing.
    const auto first = tensors.begin() + static_cast<std::ptrdiff_t>(fixed);
    tensors.erase(first, first + 2);
  }
  const bool from_starts = has_starts && shape.causal;
  const auto prepared = [&]() -> Result<Prepared> {
    if (from_starts) return Error(ErrorKind::kUnimplemented, "cuda: starts known at run time");
    return forward ? driver.prepare_attention(shape) : driver.prepare_attention_grad(shape);
  };
  call.library_or(
      prepared(),
      [&] {
        return forward ? OwnOperation::attention(driver, shape, from_starts)
                       : OwnOperation::attention_grad(driver, shape, from_starts);
      },
      std::move(tensors));
}

}  // namespace gangway::cuda
