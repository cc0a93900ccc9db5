#include <algorithm>

#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/strided.h"
#include "ir/types/axis_list.h"

namespace gangway::cuda {
namespace {

// From `offset` bytes on.
Argument from(Argument tensor, int64_t offset) {
  const int64_t bytes = tensor.bytes - offset;
  return Lowering::part(std::move(tensor), offset, bytes);
}

void move_window(Lowering& call, const WindowCopy& window, size_t input) {
  if (std::count(window.copy.sizes.begin(), window.copy.sizes.end(), 0) > 0) return;
  call.move(window.copy, from(call.read(input), window.src_bytes),
            from(call.write(0), window.dst_bytes));
}

}  // namespace

void lower_mesh(Lowering& call) {
  if (call.op() != Op::shard_slice) call.refuse("it is not among its kernels");
  const ShardCopy shard = shard_copy(call);
  const Mesh& mesh = call.function.mesh;
  const std::vector<int> axes = axes_of(mesh, call.attrs().text("axis"));
  const int64_t rows = call.in(0).dims[static_cast<size_t>(call.attrs().integer("dim"))];
  if (rows % members_along(mesh, axes) != 0) call.refuse("its parts are not even");
  std::vector<MovingWindow> windows;
  for (int64_t device = 0; device < mesh.devices(); ++device)
    windows.push_back({.source_begin = member_along(mesh, axes, device) * shard.step});
  call.move(shard.whole, call.read(0), call.write(0), value<const int32_t*>(nullptr),
            std::move(windows));
}

void lower_move(Lowering& call) {
  if (call.op() == Op::concat) {
    const std::vector<WindowCopy> parts = concat_copies(call);
    for (size_t i = 0; i < parts.size(); ++i) move_window(call, parts[i], i);
    return;
  }
  if (call.op() != Op::pad) return move_window(call, plain_move(call), 0);
  call.fill(call.out().dtype, call.attrs().real("value"), call.write(0), call.out().elements());
  move_window(call, pad_copy(call), 0);
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

void lower_window(Lowering& call) {
  const bool update = call.op() == Op::dynamic_update;
  const MovingCopy copy = moving_copy(call);
  MovingWindow moving{.moves = 1, .last = copy.last};
  (update ? moving.target_step : moving.source_step) = copy.step;
  if (update) call.copy(call.read(0), call.write(0));
  call.move(copy.copy, call.read(update ? 1 : 0), call.write(0), call.read(update ? 2 : 1),
            {moving});
}

}  // namespace gangway::cuda
