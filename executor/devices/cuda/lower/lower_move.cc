#include <algorithm>

#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/strided.h"
#include "ir/graph/bodies.h"
#include "ir/types/axis_list.h"

namespace gangway::cuda {
namespace {

// The tensor from byte `offset` on.
Argument from(Argument tensor, int64_t offset) {
  const int64_t bytes = tensor.bytes - offset;
  return Lowering::part(std::move(tensor), offset, bytes);
}

void move_window(Lowering& call, const WindowCopy& window, size_t input) {
  if (std::count(window.copy.sizes.begin(), window.copy.sizes.end(), 0) > 0) return;
  call.move(window.copy, from(call.read(input), window.src_bytes),
            from(call.write(0), window.dst_bytes));
}

// A part that has fewer rows than its shape is zero behind them.
void lower_shard_slice(Lowering& call, const std::vector<int64_t>& members) {
  const ShardCopy shard = shard_copy(call);
  const bool even = shard.rest_rows == 0 &&
                    *std::ranges::max_element(members) < std::max<int64_t>(1, shard.whole_parts);
  std::vector<MovingWindow> windows;
  for (int64_t member : members) windows.push_back({.source_begin = member * shard.step});
  if (even) {
    return call.move(shard.whole, call.read(0), call.write(0), value<const int32_t*>(nullptr),
                     std::move(windows));
  }
  const Type& y = call.out();
  const StridedView whole = call.view_of(shard.whole), rest = call.view_of(shard.rest);
  const StridedView none{.rank = 1};
  std::vector<StridedView> views;
  for (size_t d = 0; d < members.size(); ++d) {
    const int64_t behind = members[d] - shard.whole_parts;
    views.push_back(behind < 0 ? whole : behind == 0 ? rest : none);
    if (behind > 0) windows[d].source_begin = 0;
  }
  call.fill(y.dtype, 0, call.write(0), y.elements());
  call.launch_flat(cat("move_", size_of(y.dtype)), y.elements(),
                   {call.read(0), call.write(0), value_by_device(views),
                    value<const int32_t*>(nullptr), value_by_device(windows)});
}

}  // namespace

void lower_mesh(Lowering& call) {
  const Mesh& mesh = call.function.mesh;
  const bool slices = call.op() == Op::shard_slice;
  const std::vector<int> axes = axes_of(mesh, call.attrs().text(slices ? "axis" : "axes"));
  std::vector<int64_t> members;  // Indexed by device.
  for (int64_t device = 0; device < mesh.devices(); ++device)
    members.push_back(member_along(mesh, axes, device));
  if (slices) return lower_shard_slice(call, members);
  const Type& y = call.out();
  if (call.op() == Op::axis_index) {
    return call.launch_flat("fill_4", 1,
                            {call.write(0), value_by_device(members), value(int64_t{1})});
  }
  GW_ASSERT(call.op() == Op::keep_first);
  call.copy(call.read(0), call.write(0));
  std::vector<int64_t> zeros(members.size());  // Elements that each device sets to zero.
  for (size_t d = 0; d < zeros.size(); ++d) zeros[d] = members[d] == 0 ? 0 : y.elements();
  call.launch_flat(cat("fill_", size_of(y.dtype)), y.elements(),
                   {call.write(0), value(uint64_t{0}), value_by_device(zeros)});
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

void lower_carries(Lowering& call) {
  for (size_t c = 0; c < ScanLayout(call.node()).carries; ++c)
    call.copy(call.read(c), call.write(c));
}

void lower_fill(Lowering& call) {
  const Type& y = call.out();
  if (call.op() == Op::constant)
    return call.fill(y.dtype, call.attrs().real("value"), call.write(0), y.elements());
  if (call.op() == Op::table) {
    // A launch for each number: quick enough for the few of initialisers and of short tables of
    // rates (programs/optim/schedule.h).
    const std::vector<int64_t>& values = call.attrs().ints("values");
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i * sizeof(int32_t));
      call.fill(DType::kI32, static_cast<double>(values[i]),
                Lowering::part(call.write(0), at, sizeof(int32_t)), 1);
    }
    return;
  }
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
