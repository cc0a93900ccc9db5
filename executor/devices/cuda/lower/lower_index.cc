#include "executor/devices/cuda/lower/lower.h"

namespace gangway::cuda {
namespace {

void lower_take(Lowering& call) {
  const Type& table = call.in(0);
  int64_t dim = elements_between(table.dims, 1, table.dims.size());
  auto bytes = static_cast<int64_t>(size_of(table.dtype));
  for (; bytes < kMoveBytesMax && dim % 2 == 0; bytes *= 2) dim /= 2;
  const int64_t n = call.in(1).elements();
  call.launch_flat(
      cat("gather_rows_", bytes), n * dim,
      {call.read(0), call.read(1), call.write(0), value(table.dims[0]), value(dim), value(n)});
}

void lower_scatter(Lowering& call) {
  const Type& y = call.out();
  const int64_t n = call.in(0).elements(), rows = y.dims[0];
  const int64_t dim = elements_between(y.dims, 1, y.dims.size());
  call.fill(y.dtype, 0, call.write(0), y.elements());
  if (n == 0 || y.elements() == 0) return;
  const Argument next = call.scratch(n * 4), first = call.scratch(n * 4);
  call.launch_flat("scatter_chains", n, {call.read(0), next, first, value(n)});
  call.launch_rows(
      cat("scatter_add_rows_", to_string(y.dtype)), n, dim,
      {call.read(0), call.read(1), Lowering::as(next, AccessKind::kRead),
       Lowering::as(first, AccessKind::kRead), call.write(0), value(rows), value(dim), value(n)});
}

}  // namespace

void lower_index(Lowering& call) {
  if (call.op() == Op::take) return lower_take(call);
  if (call.op() == Op::scatter_add) return lower_scatter(call);
  const Type& x = call.in(0);
  const int64_t n = x.dims.back(), rows = elements_between(x.dims, 0, x.dims.size() - 1);
  if (call.op() == Op::top_k) {
    const int64_t k = call.attrs().integer("k");
    if (k == 0) return;
    return call.launch_rows(cat("top_k_", to_string(x.dtype)), rows, n,
                            {call.read(0), call.write(0), call.write(1), value(n), value(k)});
  }
  call.launch_flat(cat("sort_rows_", to_string(x.dtype)), x.elements(),
                   {call.read(0), call.write(0), call.write(1), value(n), value(x.elements())});
}

}  // namespace gangway::cuda
