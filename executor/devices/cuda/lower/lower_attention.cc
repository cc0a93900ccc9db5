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

// The tensors of attention that is not packed: the first input is queries, keys and values side by
// side, and so is the result of the gradient.
std::vector<Argument> unpacked(const Lowering& call, const AttentionShape& shape, bool forward) {
  const int64_t distance = packed_distance(shape);
  std::vector<Argument> all;
  const auto add_parts = [&](const Argument& packed) {
    for (int64_t i = 0; i < 3; ++i)
      all.push_back(Lowering::part(packed, i * distance, packed.bytes - 2 * distance));
  };
  add_parts(call.read(0));
  for (size_t i = 1; i < call.inputs(); ++i) all.push_back(call.read(i));
  if (!forward) {
    add_parts(call.write(0));
    return all;
  }
  for (uint32_t r = 0; r < call.node().results; ++r) all.push_back(call.write(r));
  return all;
}

}  // namespace

void lower_attention(Lowering& call) {
  AttentionShape shape = attention_shape(call);
  shape.deterministic = call.numerics.deterministic;
  if (call.out().elements() == 0) return;
  if (call.op() == Op::attention_decode) return lower_decode(call, shape);
  Driver& driver = call.gpu.driver();
  const bool packed = is_packed_attention(call.op());
  const bool forward = call.op() == Op::attention || call.op() == Op::packed_attention;
  const size_t fixed = forward ? 3 : 6;
  const bool has_starts = !packed && call.inputs() > fixed;
  std::vector<Argument> tensors = packed ? unpacked(call, shape, forward) : call.tensors();
  if (has_starts && !shape.causal) {  // Without a mask starts have no effect.
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
