#include <algorithm>

#include "executor/devices/cuda/lower/lower.h"

namespace gangway::cuda {
namespace {

// Lengths of the pieces of an axis: from constants, so that bits follow from shapes alone.
constexpr int64_t kRowPiece = 8192, kColumnPiece = 512;

struct AxisView {
  int64_t outer = 1, axis = 0, inner = 1;
  int64_t lines() const { return outer * inner; }
};

AxisView axis_view(const Dims& dims, size_t first, size_t end) {
  return {elements_between(dims, 0, first), elements_between(dims, first, end),
          elements_between(dims, end, dims.size())};
}

// The reduced dimensions, those of size 1 aside, when they are next to one another.
bool adjacent(const Dims& dims, const std::vector<bool>& reduced, size_t& first, size_t& end) {
  bool seen = false, closed = false;
  first = end = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (reduced[d]) {
      if (closed) return false;
      if (!seen) first = d;
      seen = true;
      end = d + 1;
    } else if (seen) {
      closed = true;
    }
  }
  return true;
}

DType wide(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

// `first`: of the elements; `join`: of what the pieces give.
struct ReduceNames {
  std::string first, join;
};

std::string types(DType from, DType to) { return cat("_", to_string(from), "_", to_string(to)); }

void reduce(Lowering& call, const ReduceNames& names, DType from, DType to, const AxisView& view,
            Argument x) {
  const int64_t lines = view.lines();
  if (lines == 0) return;
  const bool rows = view.inner == 1 && view.outer <= INT32_MAX;
  const int64_t piece = rows ? kRowPiece : kColumnPiece;
  const int64_t pieces = std::max<int64_t>(1, (view.axis + piece - 1) / piece);
  const DType partial = pieces == 1 ? to : wide(from);
  Argument y = pieces == 1 ? call.write(0)
                           : call.scratch(pieces * lines * static_cast<int64_t>(size_of(partial)));
  const auto grid_y = static_cast<uint32_t>(pieces);
  if (rows) {
    call.launch(cat("rows_", names.first, types(from, partial)),
                {static_cast<uint32_t>(view.outer), grid_y}, block_threads(view.axis),
                {std::move(x), y, value(view.axis), value(piece)});
  } else {
    const uint32_t threads = block_threads(lines);
    call.launch(
        cat("columns_", names.first, types(from, partial)),
        {static_cast<uint32_t>((lines + threads - 1) / threads), grid_y}, threads,
        {std::move(x), y, value(view.outer), value(view.axis), value(view.inner), value(piece)});
  }
  if (pieces == 1) return;
  call.launch_flat(cat("columns_", names.join, types(partial, to)), lines,
                   {Lowering::as(y, AccessKind::kRead), call.write(0), value(int64_t{1}),
                    value(pieces), value(lines), value(pieces)});
}

void lower_axes(Lowering& call, const std::vector<int64_t>& axes) {
  const Type& x = call.in(0);
  const std::string name = call.op() == Op::reduce_max   ? "max"
                           : call.op() == Op::reduce_min ? "min"
                                                         : "sum";
  std::vector<bool> reduced(x.dims.size(), false);
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  size_t first = 0, end = 0;
  if (adjacent(x.dims, reduced, first, end)) {
    return reduce(call, {name, name}, x.dtype, x.dtype, axis_view(x.dims, first, end),
                  call.read(0));
  }
  // Reduced dimensions go last, in scratch.
  std::vector<int64_t> order;
  for (bool pick : {false, true}) {
    for (size_t d = 0; d < x.dims.size(); ++d) {
      if (reduced[d] == pick) order.push_back(static_cast<int64_t>(d));
    }
  }
  const Argument moved = call.scratch(x.bytes());
  call.move(permute_copy(static_cast<int64_t>(size_of(x.dtype)), x.dims, order), call.read(0),
            moved);
  const AxisView view{call.out().elements(),
                      x.elements() / std::max<int64_t>(1, call.out().elements()), 1};
  reduce(call, {name, name}, x.dtype, x.dtype, view, Lowering::as(moved, AccessKind::kRead));
}

}  // namespace

void lower_reduce(Lowering& call) {
  const Type& x = call.in(0);
  const auto along = [&](const char* kernel) {
    const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
    const AxisView view = axis_view(x.dims, axis, axis + 1);
    call.launch_flat(
        cat(kernel, to_string(x.dtype)), view.lines(),
        {call.read(0), call.write(0), value(view.outer), value(view.axis), value(view.inner)});
  };
  if (call.op() == Op::argmax) return along("argmax_");
  if (call.op() == Op::cumsum) return along("cumsum_");
  if (call.op() == Op::sum_squares) {
    return reduce(call, {"squares", "sum"}, x.dtype, call.out().dtype, {1, x.elements(), 1},
                  call.read(0));
  }
  const std::vector<int64_t>& axes = call.attrs().ints("axes");
  return axes.empty() ? lower_copy(call) : lower_axes(call, axes);
}

}  // namespace gangway::cuda
