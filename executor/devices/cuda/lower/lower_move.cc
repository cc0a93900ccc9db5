#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/strided.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

int64_t bytes_of(const Type& type) { return static_cast<int64_t>(size_of(type.dtype)); }

// From `offset` bytes on.
Argument from(Argument tensor, int64_t offset) {
  const int64_t bytes = tensor.bytes - offset;
  return Lowering::part(std::move(tensor), offset, bytes);
}

void lower_concat(Lowering& call) {
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  std::vector<int64_t> starts(call.out().dims.size(), 0);
  for (size_t i = 0; i < call.inputs(); ++i) {
    call.move(write_window(call.in(i), call.out()), call.read(i),
              from(call.write(0), window_offset_bytes(call.out(), starts)));
    starts[axis] += call.in(i).dims[axis];
  }
}

// Negative low and high crop, as in StableHLO.
void lower_pad(Lowering& call) {
  const std::vector<int64_t>&low = call.attrs().ints("low"), &high = call.attrs().ints("high");
  const Type &x = call.in(0), &y = call.out();
  std::vector<int64_t> source(low.size()), target(low.size());
  Type window = x;
  for (size_t d = 0; d < low.size(); ++d) {
    source[d] = std::max<int64_t>(0, -low[d]);
    target[d] = std::max<int64_t>(0, low[d]);
    window.dims[d] = std::max<int64_t>(0, x.dims[d] - source[d] - std::max<int64_t>(0, -high[d]));
  }
  call.fill(y.dtype, call.attrs().real("value"), call.write(0), y.elements());
  if (window.elements() == 0) return;
  call.move({.bytes = bytes_of(x),
             .sizes = window.dims,
             .src_strides = dense_strides(x.dims),
             .dst_strides = dense_strides(y.dims)},
            from(call.read(0), window_offset_bytes(x, source)),
            from(call.write(0), window_offset_bytes(y, target)));
}

void lower_shard_slice(Lowering& call) {
  const auto dim = static_cast<size_t>(call.attrs().integer("dim"));
  const Mesh& mesh = call.function.mesh;
  const int axis = mesh.axis(call.attrs().text("axis"));
  GW_ASSERT(axis >= 0, "shard_slice along an axis that the mesh lacks");
  std::vector<MovingWindow> windows;
  const int64_t part = call.out().dims[dim] * dense_strides(call.in(0).dims)[dim];
  for (int64_t device = 0; device < mesh.devices(); ++device)
    windows.push_back({.source_begin = mesh.coordinate(device, axis) * part});
  call.move(read_window(call.in(0), call.out(), {}), call.read(0), call.write(0),
            value<const int32_t*>(nullptr), std::move(windows));
}

}  // namespace

void lower_move(Lowering& call) {
  const Op op = call.op();
  const Type &x = call.in(0), &y = call.out();
  if (op == Op::concat) return lower_concat(call);
  if (op == Op::pad) return lower_pad(call);
  if (op == Op::broadcast)
    return call.move(broadcast_copy(x, y, call.attrs().ints("map")), call.read(0), call.write(0));
  if (op == Op::transpose) {
    return call.move(permute_copy(bytes_of(x), x.dims, call.attrs().ints("permutation")),
                     call.read(0), call.write(0));
  }
  if (op == Op::shard_slice) return lower_shard_slice(call);
  GW_ASSERT(op == Op::slice);
  if (y.elements() == 0) return;
  call.move(read_window(x, y, call.attrs().ints("strides")),
            from(call.read(0), window_offset_bytes(x, call.attrs().ints("starts"))), call.write(0));
}

void lower_copy(Lowering& call) { call.copy(call.read(0), call.write(0)); }

void lower_fill(Lowering& call) {
  const Type& y = call.out();
  if (call.op() == Op::constant)
    return call.fill(y.dtype, call.attrs().real("value"), call.write(0), y.elements());
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  call.launch_flat(cat("iota_", to_string(y.dtype)), y.elements(),
                   {call.write(0), value(y.elements()), value(y.dims[axis]),
                    value(elements_between(y.dims, axis + 1, y.dims.size()))});
}

// The window starts where the run-time scalar says, clamped so that it fits.
void lower_window(Lowering& call) {
  const bool update = call.op() == Op::dynamic_update;
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  const Type& x = call.in(0);
  const Type& window = update ? call.in(1) : call.out();
  const int64_t step = dense_strides(x.dims)[axis];
  MovingWindow moving{.moves = 1, .last = x.dims[axis] - window.dims[axis]};
  (update ? moving.target_step : moving.source_step) = step;
  if (update) call.copy(call.read(0), call.write(0));
  const StridedCopy copy = update ? write_window(window, x) : read_window(x, window, {});
  call.move(copy, call.read(update ? 1 : 0), call.write(0), call.read(update ? 2 : 1), {moving});
}

}  // namespace gangway::cuda
