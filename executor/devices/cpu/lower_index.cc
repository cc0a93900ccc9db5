#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/random_part.h"
#include "executor/kernels/move.h"
#include "executor/kernels/random.h"
#include "executor/kernels/topk.h"

namespace gangway::cpu {
namespace {

Lowered lower_take(const LowerCall& call) {
  const Type& table = call.in(0);
  const RowsShape shape{table.dims[0], elements_between(table.dims, 1, table.dims.size()),
                        call.in(1).elements()};
  return {[shape, bytes = static_cast<int64_t>(size_of(table.dtype))](const KernelArgs& args) {
    gather_rows(args.par, bytes, shape, args.in(0), static_cast<const int32_t*>(args.in(1)),
                args.out(0));
  }};
}

Lowered lower_scatter(const LowerCall& call) {
  const Type& y = call.out();
  const RowsShape shape{y.dims[0], elements_between(y.dims, 1, y.dims.size()),
                        call.in(0).elements()};
  return {[shape, dtype = y.dtype](const KernelArgs& args) {
            scatter_add_rows(args.par, dtype, shape, static_cast<const int32_t*>(args.in(0)),
                             args.in(1), args.out(0), args.scratch_data());
          },
          static_cast<int64_t>(scatter_add_scratch_bytes(y.dtype, shape))};
}

}  // namespace

Lowered lower_index(const LowerCall& call) {
  if (call.node().op == Op::take) return lower_take(call);
  if (call.node().op == Op::scatter_add) return lower_scatter(call);
  const Type& x = call.in(0);
  const int64_t n = x.dims.back(), rows = elements_between(x.dims, 0, x.dims.size() - 1);
  if (call.node().op == Op::top_k) {
    return {[dtype = x.dtype, rows, n, k = call.attrs().integer("k")](const KernelArgs& args) {
      top_k(args.par, dtype, rows, n, k, args.in(0), args.out(0),
            static_cast<int32_t*>(args.out(1)));
    }};
  }
  return {[dtype = x.dtype, rows, n](const KernelArgs& args) {
            sort(args.par, dtype, rows, n, args.in(0), args.out(0),
                 static_cast<int32_t*>(args.out(1)), args.scratch_data());
          },
          static_cast<int64_t>(sort_scratch_bytes(x.dtype, rows, n, call.threads))};
}

Lowered lower_random(const LowerCall& call) {
  const RandomPart part(call);
  const RandomShape shape{.dtype = call.out().dtype,
                          .cols = part.cols(),
                          .sizes = part.sizes(),
                          .strides = part.strides()};
  const bool normal = call.node().op == Op::random_normal;
  return {[shape, firsts = part.firsts(), normal](const KernelArgs& args) {
    const auto* key = static_cast<const uint32_t*>(args.in(0));
    const RandomStart start{{key[0], key[1]},
                            firsts.size() == 1 ? firsts[0] : firsts[args.mesh_device]};
    normal ? random_normal(args.par, shape, start, args.out(0))
           : random_uniform(args.par, shape, start, args.out(0));
  }};
}

}  // namespace gangway::cpu
