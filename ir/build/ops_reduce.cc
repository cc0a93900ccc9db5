// The functions of ir/build/ops.h that sum, choose and multiply: reductions, products, indexing,
// random numbers.
#include <numeric>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/ops_support.h"
#include "runtime/base/cat.h"

namespace gangway {

using internal::axes_of;
using internal::axis_of;
using internal::refuse_at;

namespace {

Value reduce(Op op, Value x, std::vector<int64_t> axes, Loc loc) {
  axes = axes_of(x, std::move(axes), to_string(op), loc);
  return x.builder().emit1(op, {x}, {{"axes", std::move(axes)}}, loc);
}

Value random(Op op, Value key, const Type& type, Loc loc) {
  return key.builder().emit1(op, {key}, {{"dims", type.dims}, {"dtype", type.dtype}}, loc);
}

}  // namespace

Value sum(Value x, std::vector<int64_t> axes, Loc loc) {
  return reduce(Op::reduce_sum, x, std::move(axes), loc);
}
Value reduce_max(Value x, std::vector<int64_t> axes, Loc loc) {
  return reduce(Op::reduce_max, x, std::move(axes), loc);
}
Value reduce_min(Value x, std::vector<int64_t> axes, Loc loc) {
  return reduce(Op::reduce_min, x, std::move(axes), loc);
}

Value mean(Value x, std::vector<int64_t> axes, Loc loc) {
  Value total = sum(x, std::move(axes), loc);
  int64_t left = total.type().elements();
  if (left == 0) return total;
  int64_t count = x.type().elements() / left;
  if (!is_float(x.dtype()))
    refuse_at(loc, cat("mean: operand must be of a float type: got ", to_string(x.type())));
  return Operand(total, loc) / Operand(static_cast<double>(count), loc);
}

Value argmax(Value x, int axis, Loc loc) {
  int64_t a = axis_of(x, axis, "argmax", loc);
  return x.builder().emit1(Op::argmax, {x}, {{"axis", a}}, loc);
}

Value cumsum(Value x, int axis, Loc loc) {
  int64_t a = axis_of(x, axis, "cumsum", loc);
  return x.builder().emit1(Op::cumsum, {x}, {{"axis", a}}, loc);
}

Value sum_squares(Value x, Loc loc) { return x.builder().emit1(Op::sum_squares, {x}, {}, loc); }

Value dot(Value a, Value b, Loc loc) {
  int64_t m = a.rank(), n = b.rank();
  if (m >= 1 && n == 2) return dot_general(a, b, {{}, {}, {m - 1}, {0}}, loc);
  if (m != n || m < 3) {
    refuse_at(loc,
              cat("dot: ranks do not fit: expected rhs of rank 2, or equal ranks above 2, got ",
                  "lhs ", to_string(a.type()), ", rhs ", to_string(b.type())));
  }
  std::vector<int64_t> batch(static_cast<size_t>(m) - 2);
  std::iota(batch.begin(), batch.end(), 0);
  return dot_general(a, b, {batch, batch, {m - 1}, {n - 2}}, loc);
}

Value dot_general(Value a, Value b, DotDims dims, Loc loc) {
  return a.builder().emit1(Op::dot, {a, b},
                           {{"lhs_batch", std::move(dims.lhs_batch)},
                            {"rhs_batch", std::move(dims.rhs_batch)},
                            {"lhs_contract", std::move(dims.lhs_contract)},
                            {"rhs_contract", std::move(dims.rhs_contract)}},
                           loc);
}

Value take(Value table, Value index, Loc loc) {
  return table.builder().emit1(Op::take, {table, index}, {}, loc);
}

Value scatter_add(Value index, Value updates, int64_t rows, Loc loc) {
  return index.builder().emit1(Op::scatter_add, {index, updates}, {{"rows", rows}}, loc);
}

std::pair<Value, Value> top_k(Value x, int64_t k, Loc loc) {
  std::vector<Value> results = x.builder().emit(Op::top_k, {x}, {{"k", k}}, loc);
  return {results[0], results[1]};
}

std::pair<Value, Value> sort(Value x, Loc loc) {
  std::vector<Value> results = x.builder().emit(Op::sort, {x}, {}, loc);
  return {results[0], results[1]};
}

Value random_uniform(Value key, Type type, Loc loc) {
  return random(Op::random_uniform, key, type, loc);
}
Value random_normal(Value key, Type type, Loc loc) {
  return random(Op::random_normal, key, type, loc);
}

Value stop_gradient(Value x, Loc loc) { return x.builder().emit1(Op::stop_gradient, {x}, {}, loc); }

Value timed(Value x, int64_t microseconds, Loc loc) {
  return x.builder().emit1(Op::timed, {x}, {{"microseconds", microseconds}}, loc);
}

}  // namespace gangway
