#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/norm.h"
#include "runtime/base/error.h"

namespace gangway::cpu {

Lowered lower_norm(const LowerCall& call) {
  const Type& x = call.in(0);
  const NormShape shape{.x = x.dtype,
                        .param = call.in(1).dtype,
                        .rows = elements_between(x.dims, 0, x.dims.size() - 1),
                        .dim = x.dims.back(),
                        .eps = call.attrs().real("eps")};
  const auto scratch = static_cast<int64_t>(norm_grad_scratch_bytes(shape));
  switch (static_cast<int>(call.node().op)) {
    case static_cast<int>(Op::rms_norm):
      return {[shape](const KernelArgs& args) {
        rms_norm(args.par, shape, args.in(0), args.in(1), args.out(0));
      }};
    case static_cast<int>(Op::layer_norm):
      return {[shape](const KernelArgs& args) {
        layer_norm(args.par, shape, args.in(0), args.in(1), args.in(2), args.out(0));
      }};
    case static_cast<int>(Op::rms_norm_grad):
      return {[shape](const KernelArgs& args) {
                rms_norm_grad(args.par, shape, args.in(0), args.in(1), args.in(2), args.out(0),
                              args.out(1), args.scratch_data());
              },
              scratch};
    default: break;
  }
  GW_ASSERT(call.node().op == Op::layer_norm_grad);
  return {[shape](const KernelArgs& args) {
            layer_norm_grad(args.par, shape, args.in(0), args.in(1), args.in(2), args.out(0),
                            args.out(1), args.out(2), args.scratch_data());
          },
          scratch};
}

}  // namespace gangway::cpu
