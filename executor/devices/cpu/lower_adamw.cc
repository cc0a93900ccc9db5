#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/adamw.h"

namespace gangway::cpu {

// Inputs: p, m, v, g, lr, correction1, correction2, grad_scale.
Lowered lower_adamw(const LowerCall& call) {
  const DType dtype = call.in(0).dtype;
  const Attrs& attrs = call.attrs();
  return {[dtype, grad = call.in(3).dtype, n = call.in(0).elements(), beta1 = attrs.real("beta1"),
           beta2 = attrs.real("beta2"), eps = attrs.real("eps"),
           decay = attrs.real("weight_decay")](const KernelArgs& args) {
    const auto scalar = [&](size_t i) {
      return dtype == DType::kF64 ? args.scalar<double>(i) : double{args.scalar<float>(i)};
    };
    adamw(args.par, dtype, grad, n,
          {.lr = scalar(4),
           .correction1 = scalar(5),
           .correction2 = scalar(6),
           .grad_scale = scalar(7),
           .beta1 = beta1,
           .beta2 = beta2,
           .eps = eps,
           .weight_decay = decay},
          {.p = args.in(0),
           .g = args.in(3),
           .m = args.in(1),
           .v = args.in(2),
           .p_out = args.out(0),
           .m_out = args.out(1),
           .v_out = args.out(2)});
  }};
}

}  // namespace gangway::cpu
