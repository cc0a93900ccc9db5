#include <algorithm>

#include "executor/devices/cuda/lower/many_tensors.h"
#include "runtime/base/align.h"

namespace gangway::cuda {
namespace {

// Lengths of the pieces of an axis: from constants, so that bits follow from shapes alone.
constexpr int64_t kRowPiece = kReducePiece, kColumnPiece = 512;
constexpr int64_t kArgmaxRowMin = 32;  // A block takes a row of at least this length.
constexpr int64_t kGridYMax = 65535;   // Limit of all cards. More pieces take turns.

int64_t lines_of(const AxisShape& shape) { return shape.outer * shape.inner; }

DType wide(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

// Names of kernels: `first` reduces elements, `join` the results of pieces.
struct ReduceNames {
  std::string first, join;
};

std::string types(DType from, DType to) { return cat("_", to_string(from), "_", to_string(to)); }

void reduce(Lowering& call, const ReduceNames& names, DType from, DType to, const AxisShape& view,
            Argument x) {
  const int64_t lines = lines_of(view);
  if (lines == 0) return;
  const bool rows = view.inner == 1 && view.outer <= INT32_MAX;
  const int64_t piece = rows ? kRowPiece : kColumnPiece;
  const int64_t pieces = std::max<int64_t>(1, ceil_div(view.axis, piece));
  const DType partial = pieces == 1 ? to : wide(from);
  Argument y = pieces == 1 ? call.write(0)
                           : call.scratch(pieces * lines * static_cast<int64_t>(size_of(partial)));
  const auto grid_y = static_cast<uint32_t>(std::min(pieces, kGridYMax));
  if (rows) {
    call.launch(cat("rows_", names.first, types(from, partial)),
                {static_cast<uint32_t>(view.outer), grid_y}, block_threads(view.axis),
                {std::move(x), y, value(view.axis), value(piece)});
  } else {
    const uint32_t threads = block_threads(lines);
    call.launch(
        cat("columns_", names.first, types(from, partial)),
        {static_cast<uint32_t>(ceil_div(lines, threads)), grid_y}, threads,
        {std::move(x), y, value(view.outer), value(view.axis), value(view.inner), value(piece)});
  }
  if (pieces == 1) return;
  call.join(names.join, partial, to, y, call.write(0), pieces, lines);
}

void lower_axes(Lowering& call, const std::vector<int64_t>& axes) {
  const Type& x = call.in(0);
  const std::string name = call.op() == Op::reduce_max   ? "max"
                           : call.op() == Op::reduce_min ? "min"
                                                         : "sum";
  const ReducedAxes reduced = reduced_axes(x.dims, axes);
  if (reduced.order.empty()) {
    return reduce(call, {name, name}, x.dtype, x.dtype,
                  axis_shape(x.dims, reduced.first, reduced.end), call.read(0));
  }
  // Reduced dimensions go last, in scratch.
  const Argument moved = call.scratch(x.bytes());
  call.move(permute_copy(static_cast<int64_t>(size_of(x.dtype)), x.dims, reduced.order),
            call.read(0), moved);
  const AxisShape view{call.out().elements(),
                       x.elements() / std::max<int64_t>(1, call.out().elements()), 1};
  reduce(call, {name, name}, x.dtype, x.dtype, view, Lowering::as(moved, AccessKind::kRead));
}

void along_axis(Lowering& call, std::string_view kernel, const AxisShape& view) {
  call.launch_flat(
      cat(kernel, to_string(call.in(0).dtype)), lines_of(view),
      {call.read(0), call.write(0), value(view.outer), value(view.axis), value(view.inner)});
}

// A thread for each line, where these lie side by side or are short; else a block.
void lower_argmax(Lowering& call) {
  const Type& x = call.in(0);
  const auto at = static_cast<size_t>(call.attrs().integer("axis"));
  const AxisShape view = axis_shape(x.dims, at, at + 1);
  const bool rows = view.inner == 1 && view.axis >= kArgmaxRowMin && view.outer <= INT32_MAX;
  if (!rows) return along_axis(call, "argmax_", view);
  if (view.outer == 0) return;
  call.launch(cat("argmax_rows_", to_string(x.dtype)), {static_cast<uint32_t>(view.outer)},
              block_threads(view.axis), {call.read(0), call.write(0), value(view.axis)});
}

// Sums the pieces of each tensor, then the sums of the pieces. A single tensor is reduced as a row.
template <int kMax>
void squares(Lowering& call, std::span<const NodeId> nodes) {
  std::vector<Argument> tensors, results;
  std::vector<int64_t> elements;
  for (const NodeId id : nodes) {
    const Lowering one(call.gpu, call.function, id);
    tensors.push_back(Lowering::of(id, one.read(0)));
    results.push_back(Lowering::of(id, one.write(0)));
    elements.push_back(one.in(0).elements());
  }
  const Lowering::Packed packed = {static_cast<uint32_t>(nodes.size()), kMax};
  ManyPieces<kMax> pieces;
  const int64_t blocks = cut(call, elements, kReducePiece, pieces);
  const DType from = call.in(0).dtype, to = call.out().dtype;
  const Argument parts = call.scratch(blocks * static_cast<int64_t>(size_of(to)));
  tensors.push_back(parts);
  tensors.push_back(value(pieces));
  call.launch_many(cat("squares_", kMax, types(from, to)), blocks, packed, std::move(tensors));
  results.push_back(Lowering::as(parts, AccessKind::kRead));
  results.push_back(value(pieces));
  call.launch_many(cat("join_squares_", kMax, "_", to_string(to)),
                   static_cast<int64_t>(nodes.size()), packed, std::move(results));
}

}  // namespace

void lower_many_squares(Lowering& call, std::span<const NodeId> nodes) {
  nodes.size() <= kFewTensors ? squares<kFewTensors>(call, nodes)
                              : squares<kManyTensors>(call, nodes);
}

void lower_reduce(Lowering& call) {
  const Type& x = call.in(0);
  if (call.op() == Op::argmax) return lower_argmax(call);
  if (call.op() == Op::cumsum) {
    const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
    return along_axis(call, "cumsum_", axis_shape(x.dims, axis, axis + 1));
  }
  if (call.op() == Op::sum_squares) {
    return reduce(call, {"squares", "sum"}, x.dtype, call.out().dtype, {1, x.elements(), 1},
                  call.read(0));
  }
  const std::vector<int64_t>& axes = call.attrs().ints("axes");
  return axes.empty() ? lower_copy(call) : lower_axes(call, axes);
}

}  // namespace gangway::cuda
