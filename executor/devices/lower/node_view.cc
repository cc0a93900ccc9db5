#include "executor/devices/lower/node_view.h"

#include "ir/op_table/op.h"

namespace gangway {

Error no_kernel(const NodeView& node, const char* device, const std::string& why) {
  std::string types;
  for (size_t i = 0; i < node.inputs(); ++i) types += (i ? ", " : "") + to_string(node.in(i));
  return {ErrorKind::kUnimplemented,
          cat(to_string(node.op()), "(", types, "): the ", device, " device has no kernel: ", why),
          {.node = node.function.name, .at = where(node.function, node.id)}};
}

int64_t elements_between(const Dims& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t d = begin; d < end; ++d) n *= dims[d];
  return n;
}

AxisShape axis_shape(const Dims& dims, size_t first, size_t end) {
  return {elements_between(dims, 0, first), elements_between(dims, first, end),
          elements_between(dims, end, dims.size())};
}

ReducedAxes reduced_axes(const Dims& dims, const std::vector<int64_t>& axes) {
  std::vector<bool> reduced(dims.size(), false);
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  ReducedAxes found;
  bool seen = false, closed = false, adjacent = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (reduced[d]) {
      adjacent &= !closed;
      if (!seen) found.first = d;
      seen = true;
      found.end = d + 1;
    } else if (seen) {
      closed = true;
    }
  }
  if (adjacent) return found;
  for (bool pick : {false, true}) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (reduced[d] == pick) found.order.push_back(static_cast<int64_t>(d));
    }
  }
  return found;
}

AttentionShape attention_shape(const NodeView& node) {
  const bool packed = is_packed_attention(node.op());
  const Type &q = node.in(0), &k = node.in(packed ? 0 : 1);
  const int64_t heads = node.attrs().integer("heads"), dim = q.dims.back();
  const int64_t stride = packed ? 3 * dim : 0;
  const AttrValue* causal = node.attrs().find("causal");
  return {.dtype = q.dtype,
          .batch = q.dims[0],
          .heads = heads,
          .seq_q = q.dims[1],
          .seq_k = k.dims[1],
          .head_dim = dim / heads,
          .causal = causal != nullptr && std::get<bool>(*causal),
          .scale = node.attrs().real("scale"),
          .stride_q = stride,
          .stride_k = stride,
          .stride_v = stride};
}

GroupedMatmulDesc grouped_desc(const NodeView& node) {
  const Type &a = node.in(0), &b = node.in(1);
  GroupedMatmulDesc desc{.in0 = a.dtype,
                         .in1 = b.dtype,
                         .out = node.out().dtype,
                         .groups = a.dims[0],
                         .slots = a.dims[1],
                         .capacity = node.attrs().integer("capacity")};
  desc.experts = desc.capacity > 0 ? desc.slots / desc.capacity : node.in(2).dims[1];
  if (node.op() == Op::grouped_dot_grad_w) {
    desc.kind = GroupedKind::kGradWeight;
    desc.d = a.dims[2];
    desc.h = b.dims[2];
  } else {
    desc.kind = node.attrs().flag("transpose_w") ? GroupedKind::kGradInput : GroupedKind::kForward;
    desc.d = b.dims[1];
    desc.h = b.dims[2];
  }
  return desc;
}

}  // namespace gangway
