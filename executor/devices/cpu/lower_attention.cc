#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/attention.h"

namespace gangway::cpu {
Lowered lower_attention(const LowerCall& call) {
  const AttentionShape shape = attention_shape(call);
  if (call.node().op == Op::attention) {
    return {[shape](const KernelArgs& args) {
              attention(args.par, shape, args.in(0), args.in(1), args.in(2), args.out(0),
                        args.out(1), args.scratch_data());
            },
            static_cast<int64_t>(attention_scratch_bytes(shape, call.threads))};
  }
  if (call.node().op == Op::attention_grad) {
    return {[shape](const KernelArgs& args) {
              attention_grad(args.par, shape,
                             {args.in(0), args.in(1), args.in(2), args.in(3), args.in(4),
                              args.in(5), args.out(0), args.out(1), args.out(2)},
                             args.scratch_data());
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
