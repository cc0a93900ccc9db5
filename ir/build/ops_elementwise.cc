// The element-wise functions and operators of ir/build/ops.h.
#include <cmath>
#include <numbers>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/ops_support.h"

namespace gangway {

using internal::binary;

#define GW_UNARY(function, op) \
  Value function(Value x, Loc loc) { return x.builder().emit1(Op::op, {x}, {}, loc); }
GW_UNARY(neg, neg)
GW_UNARY(abs, abs)
GW_UNARY(sign, sign)
GW_UNARY(exp, exp)
GW_UNARY(log, log)
GW_UNARY(log1p, log1p)
GW_UNARY(expm1, expm1)
GW_UNARY(tanh, tanh)
GW_UNARY(sqrt, sqrt)
GW_UNARY(rsqrt, rsqrt)
GW_UNARY(erf, erf)
GW_UNARY(logistic, logistic)
GW_UNARY(sin, sin)
GW_UNARY(cos, cos)
GW_UNARY(floor, floor)
GW_UNARY(is_finite, is_finite)
GW_UNARY(logical_not, not_)
#undef GW_UNARY

#define GW_BINARY(function, op) \
  Value function(Operand a, Operand b) { return binary(Op::op, a, b); }
GW_BINARY(maximum, max)
GW_BINARY(minimum, min)
GW_BINARY(pow, pow)
GW_BINARY(eq, eq)
GW_BINARY(ne, ne)
GW_BINARY(lt, lt)
GW_BINARY(le, le)
GW_BINARY(gt, gt)
GW_BINARY(ge, ge)
GW_BINARY(operator+, add)
GW_BINARY(operator-, sub)
GW_BINARY(operator*, mul)
GW_BINARY(operator/, div)
#undef GW_BINARY

Value operator-(Operand x) { return neg(x.value, x.loc); }

Value logical_and(Value a, Value b, Loc loc) {
  return binary(Op::and_, Operand(a, loc), Operand(b, loc));
}
Value logical_or(Value a, Value b, Loc loc) {
  return binary(Op::or_, Operand(a, loc), Operand(b, loc));
}

Value square(Value x, Loc loc) { return x.builder().emit1(Op::mul, {x, x}, {}, loc); }

// Activations are regions of their own: recomputing them from x in the backward pass is cheaper
// than keeping (and reading back) every value inside.
Value silu(Value x, Loc loc) {
  Builder::Region region(x.builder());
  return x.builder().emit1(Op::mul, {x, logistic(x, loc)}, {}, loc);
}

Value gelu(Value x, Loc loc) {
  Builder::Region region(x.builder());
  auto number = [loc](double value) { return Operand(value, loc); };
  auto at = [loc](Value value) { return Operand(value, loc); };
  Value cubed = at(square(x, loc)) * at(x);
  Value inner =
      at(at(x) + at(at(cubed) * number(0.044715))) * number(std::sqrt(2 / std::numbers::pi));
  return at(at(x) * number(0.5)) * at(at(tanh(inner, loc)) + number(1));
}

Value where(Value condition, Operand then, Operand otherwise) {
  Loc loc = internal::loc_of(then, otherwise);
  Builder& builder = condition.builder();
  if (then.value.empty() && otherwise.value.empty()) {
    then.value = builder.constant(condition.type().with(DType::kF32), then.number, loc);
  }
  auto [x, y] = internal::operands(Op::select, then, otherwise, loc);
  Dims dims = internal::broadcast_dims(Op::select, condition.type(), x.type(), loc);
  return builder.emit1(
      Op::select,
      {broadcast_to(condition, dims, loc), broadcast_to(x, dims, loc), broadcast_to(y, dims, loc)},
      {}, loc);
}

Value convert(Value x, DType dtype, Loc loc) {
  if (x.dtype() == dtype) return x;
  return x.builder().emit1(Op::convert, {x}, {{"dtype", dtype}}, loc);
}

}  // namespace gangway
