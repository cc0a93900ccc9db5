#include <cstring>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/strided.h"
#include "executor/kernels/move.h"
#include "ir/types/axis_list.h"

namespace gangway::cpu {
namespace {

// Number of a mesh device along the node's axes.
class MemberOf {
 public:
  MemberOf(const LowerCall& call, const char* attr)
      : mesh_(call.function.mesh), axes_(axes_of(mesh_, call.attrs().text(attr))) {}
  int64_t operator()(const KernelArgs& args) const {
    return member_along(mesh_, axes_, args.mesh_device);
  }

 private:
  Mesh mesh_;
  std::vector<int> axes_;
};

Lowered lower_shard_slice(const LowerCall& call) {
  const Type& y = call.out();
  return {[shard = shard_copy(call), member_of = MemberOf(call, "axis"), n = y.elements(),
           dtype = y.dtype](const KernelArgs& args) {
    const int64_t member = member_of(args);
    const bool whole = member < shard.whole_parts;
    if (!whole) fill(args.par, dtype, 0, args.out(0), n);
    if (!whole && (member > shard.whole_parts || shard.rest_rows == 0)) return;
    const StridedCopy& copy = whole ? shard.whole : shard.rest;
    const int64_t start = member * shard.step * copy.bytes;
    strided_copy(args.par, copy, static_cast<const std::byte*>(args.in(0)) + start, args.out(0));
  }};
}

Lowered lower_keep_first(const LowerCall& call) {
  return {[member_of = MemberOf(call, "axes"),
           bytes = static_cast<size_t>(call.out().bytes())](const KernelArgs& args) {
    if (bytes == 0) return;
    if (member_of(args) != 0) {
      std::memset(args.out(0), 0, bytes);
    } else if (args.out(0) != args.in(0)) {
      std::memcpy(args.out(0), args.in(0), bytes);
    }
  }};
}

Lowered lower_axis_index(const LowerCall& call) {
  return {[member_of = MemberOf(call, "axes")](const KernelArgs& args) {
    *static_cast<int32_t*>(args.out(0)) = static_cast<int32_t>(member_of(args));
  }};
}

}  // namespace

Lowered lower_mesh(const LowerCall& call) {
  if (call.op() == Op::axis_index) return lower_axis_index(call);
  if (call.op() == Op::keep_first) return lower_keep_first(call);
  return lower_shard_slice(call);
}

}  // namespace gangway::cpu
