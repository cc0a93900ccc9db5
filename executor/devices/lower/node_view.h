// A node of a local function as the lowering of any device sees it, and the shapes of kernels that
// follow from its types and attributes.
//
// Threads: pure.
// Ownership: a view of the function.
#pragma once

#include <string>
#include <vector>

#include "executor/kernels/attention.h"
#include "executor/kernels/grouped_matmul.h"
#include "executor/kernels/reduce.h"
#include "ir/graph/function.h"
#include "runtime/base/error.h"

namespace gangway {

struct NodeView {
  const Function& function;
  const NodeId id;

  const Node& node() const { return function.nodes[id]; }
  Op op() const { return node().op; }
  const Attrs& attrs() const { return node().attrs; }
  size_t inputs() const { return node().inputs.size(); }
  const Type& in(size_t i) const { return function.types[node().inputs[i]]; }
  const Type& out(size_t r = 0) const {
    return function.types[node().first_result + static_cast<ValueId>(r)];
  }
};

// Returns kUnimplemented naming the op, its types and the user's line. `device`: "CPU", "CUDA".
Error no_kernel(const NodeView& node, const char* device, const std::string& why);

// Product of the sizes of dimensions [begin, end).
int64_t elements_between(const Dims& dims, size_t begin, size_t end);

// Dimensions [first, end) as one axis.
AxisShape axis_shape(const Dims& dims, size_t first, size_t end);

// How the reduced `axes` become one: dimensions [first, end) if they are adjacent, ignoring those
// of size 1; otherwise the last dimensions after a permutation to `order`.
struct ReducedAxes {
  size_t first = 0, end = 0;
  std::vector<int64_t> order;  // Empty: no permutation is needed.
};
ReducedAxes reduced_axes(const Dims& dims, const std::vector<int64_t>& axes);

AttentionShape attention_shape(const NodeView& node);  // attention*, packed_attention*
inline bool is_packed_attention(Op op) {
  return op == Op::packed_attention || op == Op::packed_attention_grad;
}
// Bytes from queries to keys, and from keys to values, in a packed tensor.
inline int64_t packed_distance(const AttentionShape& shape) {
  return shape.heads * shape.head_dim * static_cast<int64_t>(size_of(shape.dtype));
}
GroupedMatmulDesc grouped_desc(const NodeView& node);  // grouped_dot*

}  // namespace gangway
