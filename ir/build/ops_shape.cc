// The functions of ir/build/ops.h that move elements.
#include <algorithm>
#include <numeric>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/ops_support.h"
#include "runtime/base/cat.h"

namespace gangway {

using internal::axis_of;
using internal::refuse_at;

namespace {
size_t at(int64_t dim) { return static_cast<size_t>(dim); }
}  // namespace

Value constant_like(Value x, double value, Loc loc) {
  return x.builder().constant(x.type(), value, loc);
}

Value iota(Builder& builder, Type type, int axis, Loc loc) {
  return builder.emit1(Op::iota, {},
                       {{"dims", type.dims}, {"dtype", type.dtype}, {"axis", int64_t{axis}}}, loc);
}

Value table(Builder& builder, const std::vector<int32_t>& values, Loc loc) {
  return builder.emit1(Op::table, {},
                       {{"values", std::vector<int64_t>(values.begin(), values.end())}}, loc);
}

Value broadcast_to(Value x, Dims dims, Loc loc) {
  if (x.type().dims == dims) return x;
  int64_t extra = static_cast<int64_t>(dims.size()) - x.rank();
  if (extra < 0) {
    refuse_at(loc, cat("broadcast: the operand has more dimensions than the result: operand is ",
                       to_string(x.type()), ", result is ", to_string(dims)));
  }
  std::vector<int64_t> map(at(x.rank()));
  std::iota(map.begin(), map.end(), extra);
  return broadcast_in(x, std::move(dims), std::move(map), loc);
}

Value broadcast_in(Value x, Dims dims, std::vector<int64_t> map, Loc loc) {
  return x.builder().emit1(Op::broadcast, {x}, {{"dims", std::move(dims)}, {"map", std::move(map)}},
                           loc);
}

Value reshape(Value x, Dims dims, Loc loc) {
  auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    int64_t rest = 1;
    for (int64_t dim : dims) {
      if (dim == 0) rest = 0;
      if (dim > 0 && rest > 0) rest = dim > kElementsMax / rest ? kElementsMax + 1 : rest * dim;
    }
    if (rest == 0 || x.type().elements() % rest != 0) {
      refuse_at(loc, cat("reshape: no size fits the -1: operand is ", to_string(x.type()),
                         ", result is ", to_string(dims)));
    }
    *open = x.type().elements() / rest;
  }
  return x.builder().emit1(Op::reshape, {x}, {{"dims", std::move(dims)}}, loc);
}

Value transpose(Value x, std::vector<int64_t> permutation, Loc loc) {
  if (permutation.empty()) {
    permutation.resize(at(x.rank()));
    std::iota(permutation.rbegin(), permutation.rend(), int64_t{0});
  }
  return x.builder().emit1(Op::transpose, {x}, {{"permutation", std::move(permutation)}}, loc);
}

Value slice(Value x, int axis, int64_t start, int64_t limit, int64_t stride, Loc loc) {
  size_t a = at(axis_of(x, axis, "slice", loc));
  Dims starts(at(x.rank()), 0), limits = x.type().dims, strides(at(x.rank()), 1);
  starts[a] = start;
  limits[a] = limit;
  strides[a] = stride;
  return x.builder().emit1(Op::slice, {x},
                           {{"starts", starts}, {"limits", limits}, {"strides", strides}}, loc);
}

Value concat(const std::vector<Value>& parts, int axis, Loc loc) {
  if (parts.empty())
    refuse_at(loc, "concat: there is nothing to join: expected at least 1 operand");
  int64_t a = axis_of(parts[0], axis, "concat", loc);
  return parts[0].builder().emit1(Op::concat, parts, {{"axis", a}}, loc);
}

Value pad(Value x, int axis, int64_t low, int64_t high, double value, Loc loc) {
  size_t a = at(axis_of(x, axis, "pad", loc));
  Dims lows(at(x.rank()), 0), highs(at(x.rank()), 0);
  lows[a] = low;
  highs[a] = high;
  return x.builder().emit1(Op::pad, {x}, {{"low", lows}, {"high", highs}, {"value", value}}, loc);
}

Value dynamic_slice(Value x, Value start, int axis, int64_t size, Loc loc) {
  int64_t a = axis_of(x, axis, "dynamic_slice", loc);
  return x.builder().emit1(Op::dynamic_slice, {x, start}, {{"axis", a}, {"size", size}}, loc);
}

Value dynamic_update(Value x, Value update, Value start, int axis, Loc loc) {
  int64_t a = axis_of(x, axis, "dynamic_update", loc);
  return x.builder().emit1(Op::dynamic_update, {x, update, start}, {{"axis", a}}, loc);
}

}  // namespace gangway
