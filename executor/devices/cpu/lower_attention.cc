#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/attention.h"

namespace gangway::cpu {
namespace {

// Difference of the two starts, the operands behind the `fixed` ones, if there are any.
std::optional<int64_t> lead_of(const KernelArgs& args, bool has_starts, size_t fixed) {
  if (!has_starts) return std::nullopt;
  return int64_t{args.scalar<int32_t>(fixed)} - args.scalar<int32_t>(fixed + 1);
}

// Pointers into a packed tensor: queries, keys and values, or their gradients.
template <class Byte>
struct Packed {
  Packed(Byte* tensor, const AttentionShape& shape)
      : q(tensor), k(tensor + packed_distance(shape)), v(k + packed_distance(shape)) {}
  Byte *q, *k, *v;
};

Lowered lower_packed(const LowerCall& call, const AttentionShape& shape) {
  const auto packed = [shape](const KernelArgs& args) {
    return Packed(static_cast<const std::byte*>(args.in(0)), shape);
  };
  if (call.node().op == Op::packed_attention) {
    return {[=](const KernelArgs& args) {
              const Packed in = packed(args);
              attention(args.par, shape, in.q, in.k, in.v, args.out(0), args.out(1),
                        args.scratch_data());
            },
            static_cast<int64_t>(attention_scratch_bytes(shape, call.threads))};
  }
  return {[=](const KernelArgs& args) {
            const Packed in = packed(args);
            const Packed out(static_cast<std::byte*>(args.out(0)), shape);
            attention_grad(
                args.par, shape,
                {in.q, in.k, in.v, args.in(1), args.in(2), args.in(3), out.q, out.k, out.v},
                args.scratch_data());
          },
          static_cast<int64_t>(attention_grad_scratch_bytes(shape, call.threads))};
}

}  // namespace

Lowered lower_attention(const LowerCall& call) {
  const AttentionShape shape = attention_shape(call);
  if (is_packed_attention(call.node().op)) return lower_packed(call, shape);
  if (call.node().op == Op::attention) {
    return {[shape, has_starts = call.inputs() > 3](const KernelArgs& args) {
              attention(args.par, shape, args.in(0), args.in(1), args.in(2), args.out(0),
                        args.out(1), args.scratch_data(), lead_of(args, has_starts, 3));
            },
            static_cast<int64_t>(attention_scratch_bytes(shape, call.threads))};
  }
  if (call.node().op == Op::attention_grad) {
    return {[shape, has_starts = call.inputs() > 6](const KernelArgs& args) {
              attention_grad(args.par, shape,
                             {args.in(0), args.in(1), args.in(2), args.in(3), args.in(4),
                              args.in(5), args.out(0), args.out(1), args.out(2)},
                             args.scratch_data(), lead_of(args, has_starts, 6));
            },
            static_cast<int64_t>(attention_grad_scratch_bytes(shape, call.threads))};
  }
  return {[shape](const KernelArgs& args) {
            attention_decode(args.par, shape, args.scalar<int32_t>(3), args.in(0), args.in(1),
                             args.in(2), args.out(0), args.scratch_data());
          },
          static_cast<int64_t>(attention_decode_scratch_bytes(shape, call.threads))};
}

}  // namespace gangway::cpu
