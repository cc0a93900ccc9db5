// Types that the references of all ops share, and walks over row-major tensors.
#pragma once

#include <functional>
#include <vector>

#include "ir/op_table/op.h"
#include "tests/interpret/literal.h"

namespace gangway::internal {

using Doubles = std::vector<double>;

struct EvaluateCall {
  const OpCall& call;
  const std::vector<Literal>& in;
  std::vector<Literal>& out;  // The results' types, with zeros as values.

  const Attrs& attrs() const { return call.attrs; }
  const Doubles& x(size_t i = 0) const { return in[i].values; }
  const Dims& dims(size_t i = 0) const { return in[i].type.dims; }
  Doubles& y(size_t i = 0) const { return out[i].values; }
  const Dims& out_dims(size_t i = 0) const { return out[i].type.dims; }
};

using Reference = void (*)(const EvaluateCall&);
struct ReferenceRow {
  Op op;
  Reference reference;
};

std::vector<ReferenceRow> elementwise_references();
std::vector<ReferenceRow> shape_references();
std::vector<ReferenceRow> reduce_references();  // Includes dot.
std::vector<ReferenceRow> index_references();
std::vector<ReferenceRow> random_references();
std::vector<ReferenceRow> norm_references();
std::vector<ReferenceRow> attention_references();
// Operations of the products of queries and the keys that they see. 0 for other ops than attention
// and its adjoint.
double attention_flops(const OpCall& call, const std::vector<Literal>& in);
std::vector<ReferenceRow> moe_references();
std::vector<ReferenceRow> optimizer_references();

// The reference of an op. Null for ops that look at the mesh (collective.h), fusion and
// custom_call.
Reference reference_of(Op op);

// Calls visit(index of each dimension, position) in row-major order.
void each(const Dims& dims, const std::function<void(const Dims& index, size_t position)>& visit);
size_t position(const Dims& dims, const Dims& index);
inline size_t as_size(int64_t value) { return static_cast<size_t>(value); }
double wrap_i32(double value);  // Wraps modulo 2^32 into the range of i32.
// True if a is larger than b, in a total order with NaN above everything.
bool above(double a, double b);

// A tensor seen as rows of its last dimension.
struct Rows {
  size_t rows = 0, width = 0;
  explicit Rows(const Literal& x) : rows(0), width(as_size(x.type.dims.back())) {
    rows = width == 0 ? 0 : x.values.size() / width;
  }
};

}  // namespace gangway::internal
