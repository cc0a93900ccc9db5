#include <algorithm>
#include <cstring>
#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/strided.h"
#include "executor/kernels/move.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

Lowered one_copy(StridedCopy copy, int64_t src_offset = 0) {
  return {[copy = std::move(copy), src_offset](const KernelArgs& args) {
    strided_copy(args.par, copy, static_cast<const std::byte*>(args.in(0)) + src_offset,
                 args.out(0));
  }};
}

Lowered lower_concat(const LowerCall& call) {
  struct Part {
    StridedCopy copy;
    int64_t offset;
  };
  std::vector<Part> parts;
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  std::vector<int64_t> starts(call.out().dims.size(), 0);
  for (size_t i = 0; i < call.inputs(); ++i) {
    parts.push_back(
        {write_window(call.in(i), call.out()), window_offset_bytes(call.out(), starts)});
    starts[axis] += call.in(i).dims[axis];
  }
  return {[parts = std::move(parts)](const KernelArgs& args) {
    for (size_t i = 0; i < parts.size(); ++i) {
      strided_copy(args.par, parts[i].copy, args.in(i),
                   static_cast<std::byte*>(args.out(0)) + parts[i].offset);
    }
  }};
}

// Negative low and high crop, as in StableHLO.
Lowered lower_pad(const LowerCall& call) {
  const std::vector<int64_t>&low = call.attrs().ints("low"), &high = call.attrs().ints("high");
  const Type &x = call.in(0), &y = call.out();
  std::vector<int64_t> from(low.size()), to(low.size());
  Type window = x;
  for (size_t d = 0; d < low.size(); ++d) {
    from[d] = std::max<int64_t>(0, -low[d]);
    to[d] = std::max<int64_t>(0, low[d]);
    window.dims[d] = std::max<int64_t>(0, x.dims[d] - from[d] - std::max<int64_t>(0, -high[d]));
  }
  StridedCopy copy{.bytes = static_cast<int64_t>(size_of(x.dtype)),
                   .sizes = window.dims,
                   .src_strides = dense_strides(x.dims),
                   .dst_strides = dense_strides(y.dims)};
  return {[copy = std::move(copy), n = y.elements(), dtype = y.dtype,
           value = call.attrs().real("value"), src = window_offset_bytes(x, from),
           dst = window_offset_bytes(y, to)](const KernelArgs& args) {
    fill(args.par, dtype, value, args.out(0), n);
    strided_copy(args.par, copy, static_cast<const std::byte*>(args.in(0)) + src,
                 static_cast<std::byte*>(args.out(0)) + dst);
  }};
}

Lowered lower_shard_slice(const LowerCall& call) {
  const auto dim = static_cast<size_t>(call.attrs().integer("dim"));
  const Mesh& mesh = call.function.mesh;
  const int axis = mesh.axis(call.attrs().text("axis"));
  GW_ASSERT(axis >= 0, "shard_slice along an axis that the mesh lacks");
  std::vector<int64_t> offsets;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<int64_t> starts(call.in(0).dims.size(), 0);
    starts[dim] = mesh.coordinate(device, axis) * call.out().dims[dim];
    offsets.push_back(window_offset_bytes(call.in(0), starts));
  }
  StridedCopy copy = read_window(call.in(0), call.out(), {});
  return {[copy = std::move(copy), offsets = std::move(offsets)](const KernelArgs& args) {
    strided_copy(args.par, copy,
                 static_cast<const std::byte*>(args.in(0)) + offsets[args.mesh_device],
                 args.out(0));
  }};
}

}  // namespace

Lowered lower_move(const LowerCall& call) {
  const Op op = call.node().op;
  if (op == Op::concat) return lower_concat(call);
  if (op == Op::pad) return lower_pad(call);
  if (op == Op::shard_slice) return lower_shard_slice(call);
  if (op == Op::broadcast) {
    return one_copy(broadcast_copy(call.in(0), call.out(), call.attrs().ints("map")));
  }
  if (op == Op::transpose) {
    return one_copy(permute_copy(static_cast<int64_t>(size_of(call.in(0).dtype)), call.in(0).dims,
                                 call.attrs().ints("permutation")));
  }
  GW_ASSERT(op == Op::slice);
  return one_copy(read_window(call.in(0), call.out(), call.attrs().ints("strides")),
                  window_offset_bytes(call.in(0), call.attrs().ints("starts")));
}

Lowered lower_copy(const LowerCall& call) {
  return {[bytes = static_cast<size_t>(call.out().bytes())](const KernelArgs& args) {
    // The memory plan often lets both share one buffer.
    if (args.out(0) != args.in(0)) std::memmove(args.out(0), args.in(0), bytes);
  }};
}

Lowered lower_fill(const LowerCall& call) {
  const Type& y = call.out();
  if (call.node().op == Op::constant) {
    return {[dtype = y.dtype, n = y.elements(), value = call.attrs().real("value")](
                const KernelArgs& args) { fill(args.par, dtype, value, args.out(0), n); }};
  }
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  return {[dtype = y.dtype, outer = elements_between(y.dims, 0, axis), size = y.dims[axis],
           inner = elements_between(y.dims, axis + 1, y.dims.size())](const KernelArgs& args) {
    iota(args.par, dtype, outer, size, inner, args.out(0));
  }};
}

// The window starts where the run-time scalar says, clamped so that it fits.
Lowered lower_window(const LowerCall& call) {
  const bool update = call.node().op == Op::dynamic_update;
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  const Type& x = call.in(0);
  const Type& window = update ? call.in(1) : call.out();
  const int64_t last = x.dims[axis] - window.dims[axis];
  const int64_t step = dense_strides(x.dims)[axis] * static_cast<int64_t>(size_of(x.dtype));
  const auto start_bytes = [last, step](const KernelArgs& args, size_t i) {
    return std::clamp<int64_t>(args.scalar<int32_t>(i), 0, last) * step;
  };
  if (update) {
    return {[copy = write_window(window, x), bytes = static_cast<size_t>(x.bytes()),
             start_bytes](const KernelArgs& args) {
      if (args.out(0) != args.in(0)) std::memcpy(args.out(0), args.in(0), bytes);
      strided_copy(args.par, copy, args.in(1),
                   static_cast<std::byte*>(args.out(0)) + start_bytes(args, 2));
    }};
  }
  return {[copy = read_window(x, window, {}), start_bytes](const KernelArgs& args) {
    strided_copy(args.par, copy, static_cast<const std::byte*>(args.in(0)) + start_bytes(args, 1),
                 args.out(0));
  }};
}

}  // namespace gangway::cpu
