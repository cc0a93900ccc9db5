#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/cross_entropy.h"
#include "executor/kernels/softmax.h"
#include "runtime/base/error.h"

namespace gangway::cpu {

Lowered lower_softmax(const LowerCall& call) {
  const Type& x = call.in(0);
  const DType dtype = x.dtype;
  const int64_t cols = x.dims.back(), rows = elements_between(x.dims, 0, x.dims.size() - 1);
  switch (static_cast<int>(call.node().op)) {
    case static_cast<int>(Op::softmax):
      return {[=](const KernelArgs& args) {
        softmax(args.par, dtype, rows, cols, args.in(0), args.out(0));
      }};
    case static_cast<int>(Op::softmax_grad):
      return {[=](const KernelArgs& args) {
        softmax_grad(args.par, dtype, rows, cols, args.in(0), args.in(1), args.out(0));
      }};
    case static_cast<int>(Op::cross_entropy):
      return {[=](const KernelArgs& args) {
        cross_entropy(args.par, dtype, rows, cols, args.in(0),
                      static_cast<const int32_t*>(args.in(1)), args.out(0), args.out(1));
      }};
    case static_cast<int>(Op::cross_entropy_and_grad):
      return {[=](const KernelArgs& args) {
        cross_entropy_and_grad(args.par, dtype, rows, cols, args.in(0),
                               static_cast<const int32_t*>(args.in(1)), args.in(2), args.out(0),
                               args.out(1), args.out(2));
      }};
    default: break;
  }
  GW_ASSERT(call.node().op == Op::cross_entropy_grad);
  return {[=](const KernelArgs& args) {
    cross_entropy_grad(args.par, dtype, rows, cols, args.in(0),
                       static_cast<const int32_t*>(args.in(1)), args.in(2), args.in(3),
                       args.out(0));
  }};
}

}  // namespace gangway::cpu
