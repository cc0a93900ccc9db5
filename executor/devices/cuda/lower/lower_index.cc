#include <algorithm>
#include <bit>
#include <utility>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/lower/lower.h"
#include "runtime/base/align.h"

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

// The sorted keys of kernels/scatter.cu: the row of each update, then the number of the update.
Argument sorted_keys(Lowering& call, int64_t n) {
  if (n > UINT32_MAX) call.refuse("more than 2^32 updates");
  const auto tile = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(n, 64, kScatterTile))));
  Argument keys = call.scratch(n * 8);
  call.launch("scatter_sort_tiles", {static_cast<uint32_t>(ceil_div(n, tile))},
              static_cast<uint32_t>(tile / 2), {call.read(0), keys, value(n)});
  if (n <= tile) return Lowering::as(keys, AccessKind::kRead);
  Argument merged = call.scratch(n * 8);
  for (int64_t run = tile; run < n; run *= 2) {
    call.launch_flat("scatter_merge", n,
                     {Lowering::as(keys, AccessKind::kRead), merged, value(run), value(n)});
    std::swap(keys, merged);
  }
  return Lowering::as(keys, AccessKind::kRead);
}

void lower_scatter(Lowering& call) {
  const Type& y = call.out();
  const int64_t n = call.in(0).elements(), rows = y.dims[0];
  const int64_t dim = elements_between(y.dims, 1, y.dims.size());
  call.fill(y.dtype, 0, call.write(0), y.elements());
  if (n == 0 || y.elements() == 0) return;
  const Argument keys = sorted_keys(call, n);
  const int64_t pieces = ceil_div(n, kScatterPiece);
  const DType wide = y.dtype == DType::kBF16 ? DType::kF32 : y.dtype;
  const Argument parts = call.scratch(2 * pieces * dim * static_cast<int64_t>(size_of(wide)));
  // scatter_pieces writes only the parts that scatter_join reads.
  const auto strip = static_cast<int64_t>(16 / size_of(y.dtype));
  call.launch_rows(cat("scatter_pieces_", to_string(y.dtype)), pieces,
                   dim % strip == 0 ? dim / strip : dim,
                   {keys, call.read(1), call.write(0, AccessKind::kReadWrite), parts, value(rows),
                    value(dim), value(n)});
  call.launch_rows(cat("scatter_join_", to_string(y.dtype)), pieces, dim,
                   {keys, Lowering::as(parts, AccessKind::kRead),
                    call.write(0, AccessKind::kReadWrite), value(rows), value(dim), value(n)});
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
