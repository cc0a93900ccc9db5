#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/strided.h"
#include "executor/kernels/move.h"
#include "ir/graph/bodies.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

void copy_window(const KernelArgs& args, const WindowCopy& window, size_t input) {
  strided_copy(args.par, window.copy,
               static_cast<const std::byte*>(args.in(input)) + window.src_bytes,
               static_cast<std::byte*>(args.out(0)) + window.dst_bytes);
}

Lowered lower_concat(const LowerCall& call) {
  return {[parts = concat_copies(call)](const KernelArgs& args) {
    for (size_t i = 0; i < parts.size(); ++i) copy_window(args, parts[i], i);
  }};
}

Lowered lower_pad(const LowerCall& call) {
  const Type& y = call.out();
  return {[window = pad_copy(call), n = y.elements(), dtype = y.dtype,
           value = call.attrs().real("value")](const KernelArgs& args) {
    fill(args.par, dtype, value, args.out(0), n);
    copy_window(args, window, 0);
  }};
}

}  // namespace

Lowered lower_move(const LowerCall& call) {
  if (call.op() == Op::concat) return lower_concat(call);
  if (call.op() == Op::pad) return lower_pad(call);
  return {[window = plain_move(call)](const KernelArgs& args) { copy_window(args, window, 0); }};
}

Lowered lower_copy(const LowerCall& call) {
  return {[bytes = static_cast<size_t>(call.out().bytes())](const KernelArgs& args) {
    // The memory plan often lets both share one buffer.
    if (args.out(0) != args.in(0)) std::memmove(args.out(0), args.in(0), bytes);
  }};
}

Lowered lower_carries(const LowerCall& call) {
  std::vector<size_t> bytes;
  for (size_t c = 0; c < ScanLayout(call.node()).carries; ++c)
    bytes.push_back(static_cast<size_t>(call.in(c).bytes()));
  return {[bytes = std::move(bytes)](const KernelArgs& args) {
    for (size_t c = 0; c < bytes.size(); ++c) {
      if (args.out(c) != args.in(c)) std::memmove(args.out(c), args.in(c), bytes[c]);
    }
  }};
}

Lowered lower_fill(const LowerCall& call) {
  const Type& y = call.out();
  if (call.node().op == Op::constant) {
    return {[dtype = y.dtype, n = y.elements(), value = call.attrs().real("value")](
                const KernelArgs& args) { fill(args.par, dtype, value, args.out(0), n); }};
  }
  if (call.node().op == Op::table) {
    const std::vector<int64_t>& values = call.attrs().ints("values");
    return {[numbers = std::vector<int32_t>(values.begin(), values.end())](const KernelArgs& args) {
      std::ranges::copy(numbers, static_cast<int32_t*>(args.out(0)));
    }};
  }
  const auto axis = static_cast<size_t>(call.attrs().integer("axis"));
  return {[dtype = y.dtype, outer = elements_between(y.dims, 0, axis), size = y.dims[axis],
           inner = elements_between(y.dims, axis + 1, y.dims.size())](const KernelArgs& args) {
    iota(args.par, dtype, outer, size, inner, args.out(0));
  }};
}

Lowered lower_window(const LowerCall& call) {
  const bool update = call.op() == Op::dynamic_update;
  return {[update, moving = moving_copy(call),
           bytes = static_cast<size_t>(call.in(0).bytes())](const KernelArgs& args) {
    const int64_t start =
        std::clamp<int64_t>(args.scalar<int32_t>(update ? 2 : 1), 0, moving.last) * moving.step *
        moving.copy.bytes;
    if (!update)
      return strided_copy(args.par, moving.copy, static_cast<const std::byte*>(args.in(0)) + start,
                          args.out(0));
    if (args.out(0) != args.in(0)) std::memcpy(args.out(0), args.in(0), bytes);
    strided_copy(args.par, moving.copy, args.in(1), static_cast<std::byte*>(args.out(0)) + start);
  }};
}

}  // namespace gangway::cpu
