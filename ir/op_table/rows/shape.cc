// Rows of the ops that move elements without computing on them.
#include <algorithm>
#include <utility>

#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

Type source_type(const OpCall& call) {
  DType dtype = call.attrs.dtype("dtype");
  return {dtype, need_dims(call, "dims", dtype)};
}

std::vector<Type> constant_type(const OpCall& call) {
  Type type = source_type(call);
  need_number_of(call, "value", type);
  return {type};
}

std::vector<Type> iota_type(const OpCall& call) {
  Type type = source_type(call);
  GW_NEED(call, type.dtype != DType::kBool, "dtype must hold numbers: got bool");
  const int axis = need_axis(call, "axis", type);
  need_counts(call, type.dtype, type.dims[at(axis)], cat("dim ", axis));
  return {type};
}

std::vector<Type> table_type(const OpCall& call) {
  const std::vector<int64_t>& values = call.attrs.ints("values");
  GW_NEED(call, !values.empty(), "values must hold at least one number");
  for (int64_t value : values) {
    GW_NEED(call, std::in_range<int32_t>(value), "values must fit i32: got ", value);
  }
  return {i32({static_cast<int64_t>(values.size())})};
}

Factors iota_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  factors[at(call.attrs.integer("axis"))].kind = FactorKind::kWhole;
  return factors;
}

std::vector<Type> broadcast_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  Type result{x.dtype, need_dims(call, "dims", x.dtype)};
  const std::vector<int64_t> map = need_axes(call, "map", result);
  GW_NEED(call, map.size() == x.dims.size(), "map must name one result dimension for each of ",
          to_string(x), ": got ", to_string(map));
  for (size_t i = 0; i < map.size(); ++i) {
    int64_t to = result.dims[at(map[i])];
    GW_NEED(call, x.dims[i] == to || x.dims[i] == 1, "sizes do not fit: operand dim ", i, " is ",
            x.dims[i], " in ", to_string(x), ", result dim ", map[i], " is ", to, " in ",
            to_string(result));
  }
  return {result};
}

Factors broadcast_factors(const OpCall& call) {
  FactorList list(call);
  const Dims &dims = call.attrs.ints("dims"), &map = call.attrs.ints("map");
  for (size_t r = 0; r < dims.size(); ++r) {
    auto found = std::find(map.begin(), map.end(), static_cast<int64_t>(r));
    auto i = static_cast<size_t>(found - map.begin());
    bool kept = found != map.end() && call.inputs[0].dims[i] == dims[r];
    list.add(FactorKind::kPass, dims[r], kept ? static_cast<int>(i) : -1, static_cast<int>(r));
  }
  return list.take();
}

Values broadcast_gradient(const GradientCall& g) {
  const Type& x = g.inputs[0].type();
  const Dims &dims = g.node.attrs.ints("dims"), &map = g.node.attrs.ints("map");
  std::vector<int64_t> axes;
  for (size_t r = 0; r < dims.size(); ++r) {
    auto found = std::find(map.begin(), map.end(), static_cast<int64_t>(r));
    bool kept = found != map.end() && x.dims[at(found - map.begin())] == dims[r];
    if (!kept) axes.push_back(static_cast<int64_t>(r));
  }
  Value ct = g.cotangents[0];
  if (!axes.empty()) ct = g.builder.emit1(Op::reduce_sum, {ct}, {{"axes", axes}}, g.loc);
  return {ct.type().dims == x.dims ? ct : reshape(ct, x.dims, g.loc)};
}

std::vector<Type> reshape_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  Type result{x.dtype, need_dims(call, "dims", x.dtype)};
  GW_NEED(call, result.elements() == x.elements(), "the number of elements changes: operand is ",
          to_string(x), " with ", x.elements(), ", result is ", to_string(result), " with ",
          result.elements());
  return {result};
}

std::vector<Type> transpose_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  const std::vector<int64_t>& permutation = call.attrs.ints("permutation");
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool ok = sorted.size() == x.dims.size();
  for (size_t i = 0; ok && i < sorted.size(); ++i) ok = sorted[i] == static_cast<int64_t>(i);
  GW_NEED(call, ok, "permutation must name every dimension of ", to_string(x), " once: got ",
          to_string(permutation));
  Type result = x;
  for (size_t i = 0; i < permutation.size(); ++i) result.dims[i] = x.dims[at(permutation[i])];
  return {result};
}

Factors transpose_factors(const OpCall& call) {
  FactorList list(call);
  const std::vector<int64_t>& permutation = call.attrs.ints("permutation");
  for (size_t r = 0; r < permutation.size(); ++r) {
    list.add(FactorKind::kPass, call.inputs[0].dims[at(permutation[r])],
             static_cast<int>(permutation[r]), static_cast<int>(r));
  }
  return list.take();
}

Values transpose_gradient(const GradientCall& g) {
  const std::vector<int64_t>& permutation = g.node.attrs.ints("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[at(permutation[i])] = static_cast<int64_t>(i);
  return {transpose(g.cotangents[0], inverse, g.loc)};
}

std::vector<Type> slice_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  const Dims &starts = call.attrs.ints("starts"), &limits = call.attrs.ints("limits"),
             &strides = call.attrs.ints("strides");
  GW_NEED(call,
          starts.size() == x.dims.size() && limits.size() == x.dims.size() &&
              strides.size() == x.dims.size(),
          "starts, limits and strides need one number for each dimension of ", to_string(x));
  Type result = x;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    GW_NEED(call,
            starts[d] >= 0 && starts[d] <= limits[d] && limits[d] <= x.dims[d] && strides[d] > 0,
            "the window of dim ", d, " is not within ", to_string(x), ": got start ", starts[d],
            ", limit ", limits[d], ", stride ", strides[d]);
    int64_t length = limits[d] - starts[d];
    result.dims[d] = length / strides[d] + (length % strides[d] != 0);
  }
  return {result};
}

Factors slice_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  const Dims& dims = call.inputs[0].dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    bool all = call.attrs.ints("starts")[d] == 0 && call.attrs.ints("limits")[d] == dims[d] &&
               call.attrs.ints("strides")[d] == 1;
    if (!all) factors[d].kind = FactorKind::kWhole;
  }
  return factors;
}

Value pad_axis(const GradientCall& g, Value x, size_t axis, int64_t low, int64_t high) {
  if (low == 0 && high == 0) return x;
  return pad(x, static_cast<int>(axis), low, high, 0, g.loc);
}

// Puts stride - 1 zeros behind each element along `axis`.
Value spread(const GradientCall& g, Value x, size_t axis, int64_t stride) {
  Dims wide = x.type().dims, flat = wide;
  wide.insert(wide.begin() + static_cast<int64_t>(axis) + 1, 1);
  flat[axis] *= stride;
  return reshape(pad_axis(g, reshape(x, wide, g.loc), axis + 1, 0, stride - 1), flat, g.loc);
}

Values slice_gradient(const GradientCall& g) {
  Value ct = g.cotangents[0];
  const Dims& dims = g.inputs[0].type().dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t start = g.node.attrs.ints("starts")[d], stride = g.node.attrs.ints("strides")[d];
    if (stride > 1) ct = spread(g, ct, d, stride);
    int64_t room = dims[d] - start;
    int axis = static_cast<int>(d);
    if (ct.type().dims[d] > room) ct = slice(ct, axis, 0, room, 1, g.loc);
    ct = pad_axis(g, ct, d, start, room - ct.type().dims[d]);
  }
  return {ct};
}

std::vector<Type> concat_type(const OpCall& call) {
  auto axis = static_cast<size_t>(need_axis(call, "axis", call.inputs[0]));
  Type result = call.inputs[0];
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Type other = call.inputs[i], expected = result;
    bool ok = other.rank() == result.rank();
    if (ok) expected.dims[axis] = other.dims[axis];
    GW_NEED(call, ok && other == expected, "operands differ beside dim ", axis, ": operand 0 is ",
            to_string(call.inputs[0]), ", operand ", i, " is ", to_string(other));
    // A sum that is out of bounds is refused with all results that are.
    result.dims[axis] = std::min(result.dims[axis] + other.dims[axis], kElementsMax + 1);
  }
  return {result};
}

Factors concat_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  factors[at(call.attrs.integer("axis"))].kind = FactorKind::kWhole;
  return factors;
}

Values concat_gradient(const GradientCall& g) {
  int axis = static_cast<int>(g.node.attrs.integer("axis"));
  Values parts;
  int64_t start = 0;
  for (const Value& input : g.inputs) {
    int64_t size = input.dim(axis);
    parts.push_back(slice(g.cotangents[0], axis, start, start + size, 1, g.loc));
    start += size;
  }
  return parts;
}

std::vector<Type> pad_type(const OpCall& call) {
  const Type& x = call.inputs[0];
  const Dims &low = call.attrs.ints("low"), &high = call.attrs.ints("high");
  GW_NEED(call, low.size() == x.dims.size() && high.size() == x.dims.size(),
          "low and high need one number for each dimension of ", to_string(x), ": got ",
          to_string(low), " and ", to_string(high));
  need_number_of(call, "value", x);
  Type result = x;
  for (size_t d = 0; d < low.size(); ++d) {
    GW_NEED(call, low[d] >= 0 && low[d] <= kElementsMax && high[d] >= 0 && high[d] <= kElementsMax,
            "low and high are out of range: expected 0 to ", kElementsMax, ", got ", to_string(low),
            " and ", to_string(high));
    result.dims[d] += low[d] + high[d];
  }
  return {result};
}

Factors pad_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  for (size_t d = 0; d < factors.size(); ++d) {
    if (call.attrs.ints("low")[d] != 0 || call.attrs.ints("high")[d] != 0)
      factors[d].kind = FactorKind::kWhole;
  }
  return factors;
}

Values pad_gradient(const GradientCall& g) {
  const Dims &dims = g.inputs[0].type().dims, &low = g.node.attrs.ints("low");
  Value ct = g.cotangents[0];
  for (size_t d = 0; d < dims.size(); ++d) {
    if (ct.type().dims[d] != dims[d])
      ct = slice(ct, static_cast<int>(d), low[d], low[d] + dims[d], 1, g.loc);
  }
  return {ct};
}

AttrSpec dims_attr() {
  return {"dims", AttrKind::kInts, {}, "the result's sizes", AttrRole::kResultSizes};
}
AttrSpec dtype_attr() { return {"dtype", AttrKind::kDType, {}, "the result's element type"}; }

std::vector<OpRow> source_rows() {
  return {
      {.op = Op::constant,
       .name = "constant",
       .family = OpFamily::kShape,
       .inputs_min = 0,
       .inputs_max = 0,
       .attrs = {dims_attr(), dtype_attr(), {"value", AttrKind::kDouble, {}, "of every element"}},
       .type_rule = constant_type,
       .factors = elementwise_factors,
       .made_again = true,
       .gradient = [](const GradientCall&) { return Values(); },
       .cost = per_result<0>,
       .doc = "A tensor filled with one value that its element type has, rounded to it."},
      {.op = Op::iota,
       .name = "iota",
       .family = OpFamily::kShape,
       .inputs_min = 0,
       .inputs_max = 0,
       .attrs = {dims_attr(),
                 dtype_attr(),
                 {"axis", AttrKind::kInt, {}, "the dimension that counts"}},
       .type_rule = iota_type,
       .factors = iota_factors,
       .gradient = [](const GradientCall&) { return Values(); },
       .cost = per_result<0>,
       .doc = "0, 1, 2 ... along one dimension, no longer than its element type can count."},
      {.op = Op::table,
       .name = "table",
       .family = OpFamily::kShape,
       .inputs_min = 0,
       .inputs_max = 0,
       .attrs = {{"values", AttrKind::kInts, {}, "its elements"}},
       .type_rule = table_type,
       .factors = whole_factors,
       .no_gradient = "it holds integers",
       .cost = per_result<0>,
       .doc = "The numbers of a list: i32[n]."},
  };
}

// Parts of dimensions, and dimensions that grow.
std::vector<OpRow> window_rows() {
  return {
      {.op = Op::slice,
       .name = "slice",
       .attrs = {{"starts", AttrKind::kInts, {}, "first index, for each dimension"},
                 {"limits", AttrKind::kInts, {}, "end index", AttrRole::kResultSizes},
                 {"strides", AttrKind::kInts, {}, "step"}},
       .type_rule = slice_type,
       .factors = slice_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .gradient = slice_gradient,
       .doc = "A window of each dimension."},
      {.op = Op::concat,
       .name = "concat",
       .inputs_max = -1,
       .attrs = {{"axis", AttrKind::kInt, {}, "the dimension that grows"}},
       .type_rule = concat_type,
       .factors = concat_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .gradient = concat_gradient,
       .doc = "Joins along one dimension."},
      {.op = Op::pad,
       .name = "pad",
       .attrs = {{"low", AttrKind::kInts, {}, "elements before, for each dimension"},
                 {"high", AttrKind::kInts, {}, "elements behind"},
                 {"value", AttrKind::kDouble, 0.0, "of the new elements"}},
       .type_rule = pad_type,
       .factors = pad_factors,
       .keeps_zero = true,
       .keeps_zero_when = [](const OpCall& call) { return call.attrs.real("value") == 0; },
       .gradient = pad_gradient,
       .doc = "Adds elements at the edges."},
  };
}

}  // namespace

std::vector<OpRow> shape_rows() {
  std::vector<OpRow> rows = source_rows();
  auto add = [&rows](OpRow row) {
    row.family = OpFamily::kShape;
    row.cost = per_result<0>;
    rows.push_back(std::move(row));
  };
  add({.op = Op::broadcast,
       .name = "broadcast",
       .attrs = {dims_attr(),
                 {"map", AttrKind::kInts, {}, "the result dimension of each operand dimension"}},
       .type_rule = broadcast_type,
       .factors = broadcast_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .made_again = true,
       .gradient = broadcast_gradient,
       .doc = "Repeats along new dimensions and along dimensions of size 1."});
  add({.op = Op::reshape,
       .name = "reshape",
       .attrs = {dims_attr()},
       .type_rule = reshape_type,
       .factors = reshape_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .shares_buffer = true,
       .gradient =
           [](const GradientCall& g) {
             return Values{reshape(g.cotangents[0], g.inputs[0].type().dims, g.loc)};
           },
       .doc = "Other sizes, the same elements in row-major order."});
  add({.op = Op::transpose,
       .name = "transpose",
       .attrs =
           {{"permutation", AttrKind::kInts, {}, "result dim i is operand dim permutation[i]"}},
       .type_rule = transpose_type,
       .factors = transpose_factors,
       .linear = Linear::kAll,
       .keeps_zero = true,
       .gradient = transpose_gradient,
       .doc = "Reorders the dimensions."});
  for (OpRow& row : window_rows()) add(std::move(row));
  return rows;
}

}  // namespace gangway::internal
