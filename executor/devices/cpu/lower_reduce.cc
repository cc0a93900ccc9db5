#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/move.h"
#include "executor/kernels/reduce.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

ReduceOp reduce_op(Op op) {
  if (op == Op::reduce_max) return ReduceOp::kMax;
  if (op == Op::reduce_min) return ReduceOp::kMin;
  return op == Op::argmax ? ReduceOp::kArgmax : ReduceOp::kSum;
}

Lowered simple(ReduceOp op, DType dtype, const AxisShape& shape) {
  return {[op, dtype, shape](const KernelArgs& args) {
            reduce(args.par, op, dtype, shape, args.in(0), args.out(0), args.scratch_data());
          },
          static_cast<int64_t>(reduce_scratch_bytes(op, dtype, shape))};
}

Lowered lower_axes(const LowerCall& call, const std::vector<int64_t>& axes) {
  const Type& x = call.in(0);
  const ReduceOp op = reduce_op(call.node().op);
  const ReducedAxes reduced = reduced_axes(x.dims, axes);
  if (reduced.order.empty())
    return simple(op, x.dtype, axis_shape(x.dims, reduced.first, reduced.end));
  // Reduced dimensions go last, in scratch.
  const AxisShape shape{call.out().elements(),
                        x.elements() / std::max<int64_t>(1, call.out().elements()), 1};
  const int64_t moved = align_up(x.bytes(), kScratchAlignment);
  return {[op, dtype = x.dtype, shape, moved,
           copy = permute_copy(static_cast<int64_t>(size_of(x.dtype)), x.dims, reduced.order)](
              const KernelArgs& args) {
            auto* scratch = static_cast<std::byte*>(args.scratch_data());
            strided_copy(args.par, copy, args.in(0), scratch);
            reduce(args.par, op, dtype, shape, scratch, args.out(0), scratch + moved);
          },
          moved + static_cast<int64_t>(reduce_scratch_bytes(op, x.dtype, shape))};
}

}  // namespace

Lowered lower_reduce(const LowerCall& call) {
  const Type& x = call.in(0);
  switch (static_cast<int>(call.node().op)) {
    case static_cast<int>(Op::sum_squares):
      return {[dtype = x.dtype, n = x.elements()](const KernelArgs& args) {
                sum_squares(args.par, dtype, args.in(0), n, args.out(0), args.scratch_data());
              },
              static_cast<int64_t>(sum_squares_scratch_bytes(x.elements()))};
    case static_cast<int>(Op::cumsum): {
      const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
      return {
          [dtype = x.dtype, shape = axis_shape(x.dims, axis, axis + 1)](const KernelArgs& args) {
            cumsum(args.par, dtype, shape, args.in(0), args.out(0));
          }};
    }
    case static_cast<int>(Op::argmax): {
      const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
      return simple(ReduceOp::kArgmax, x.dtype, axis_shape(x.dims, axis, axis + 1));
    }
    default: break;
  }
  const std::vector<int64_t>& axes = call.attrs().ints("axes");
  return axes.empty() ? lower_copy(call) : lower_axes(call, axes);
}

}  // namespace gangway::cpu
