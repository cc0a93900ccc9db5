// Rows of the element-wise ops. Comparisons and `max`, `min` follow IEEE 754: a comparison with a
// NaN is false (ne: true); max and min of a NaN are NaN.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {
namespace {

using G = const GradientCall&;
using GradientRule = Values (*)(G);

Value ct(G g) { return g.cotangents[0]; }
Value x(G g) { return g.inputs[0]; }
Value rhs(G g) { return g.inputs[1]; }
Value y(G g) { return g.results[0]; }

std::vector<Type> float_unary(const OpCall& call) {
  need_float(call, 0, "operand");
  return {call.inputs[0]};
}

std::vector<Type> number_unary(const OpCall& call) {
  need_number(call, 0, "operand");
  return {call.inputs[0]};
}

std::vector<Type> number_binary(const OpCall& call) {
  need_same(call, 0, "lhs", 1, "rhs");
  need_number(call, 0, "lhs");
  return {call.inputs[0]};
}

std::vector<Type> float_binary(const OpCall& call) {
  need_same(call, 0, "lhs", 1, "rhs");
  need_float(call, 0, "lhs");
  return {call.inputs[0]};
}

std::vector<Type> compare(const OpCall& call) {
  need_same(call, 0, "lhs", 1, "rhs");
  return {call.inputs[0].with(DType::kBool)};
}

std::vector<Type> logic(const OpCall& call) {
  need_dtype(call, 0, "operand", DType::kBool);
  if (call.inputs.size() == 2) need_same(call, 0, "lhs", 1, "rhs");
  return {call.inputs[0]};
}

std::vector<Type> select_type(const OpCall& call) {
  need_dtype(call, 0, "condition", DType::kBool);
  need_same(call, 1, "then", 2, "otherwise");
  GW_NEED(call, call.inputs[0].dims == call.inputs[1].dims, "shapes differ: condition is ",
          to_string(call.inputs[0]), ", then is ", to_string(call.inputs[1]));
  return {call.inputs[1]};
}

Value zeros_like(const GradientCall& g, const Value& x) { return constant_like(x, 0, g.loc); }

// All of the cotangent to the winner, half to each where they tie.
Values share(const GradientCall& g, Value first_wins, Value tie) {
  Value ct = g.cotangents[0], half = ct * 0.5, none = zeros_like(g, ct);
  Value to_first = where(first_wins, ct, where(tie, half, none));
  return {to_first, ct - to_first};
}

struct Unary {
  Op op;
  std::string_view name;
  int flops;
  GradientRule gradient;
  std::string_view doc;
  std::vector<Type> (*type_rule)(const OpCall&) = float_unary;
  Linear linear = Linear::kNo;
};

// Ops whose result for zeros is 0 (false).
bool keeps_zero(Op op) {
  constexpr Op kThese[] = {Op::neg,  Op::abs, Op::sign,   Op::log1p,  Op::expm1, Op::tanh,
                           Op::sqrt, Op::erf, Op::sin,    Op::floor,  Op::add,   Op::sub,
                           Op::mul,  Op::max, Op::min,    Op::ne,     Op::lt,    Op::gt,
                           Op::and_, Op::or_, Op::select, Op::convert};
  return std::ranges::find(kThese, op) != std::end(kThese);
}

Cost unary_cost(const OpCall& call) { return per_result<8>(call); }

OpRow unary(const Unary& u) {
  return {.op = u.op,
          .name = u.name,
          .family = OpFamily::kElementwise,
          .type_rule = u.type_rule,
          .factors = elementwise_factors,
          .linear = u.linear,
          .keeps_zero = keeps_zero(u.op),
          .gradient = u.gradient,
          .cost = u.flops == 1 ? per_result<1> : unary_cost,
          .doc = u.doc};
}

void add_unary(std::vector<OpRow>& rows) {
  const Unary table[] = {
      {Op::neg, "neg", 1, [](G g) { return Values{-ct(g)}; }, "-x.", number_unary, Linear::kAll},
      {Op::abs, "abs", 1, [](G g) { return Values{ct(g) * sign(x(g))}; },
       "The absolute value; its gradient at 0 is 0.", number_unary},
      {Op::sign, "sign", 1, [](G) { return Values{Value()}; },
       "-1, 0 or 1; no gradient anywhere, also at 0.", number_unary},
      {Op::exp, "exp", 8, [](G g) { return Values{ct(g) * y(g)}; }, "e to the x."},
      {Op::log, "log", 8, [](G g) { return Values{ct(g) / x(g)}; }, "The natural logarithm."},
      {Op::log1p, "log1p", 8, [](G g) { return Values{ct(g) / (x(g) + 1)}; },
       "log(1 + x), exact near 0."},
      {Op::expm1, "expm1", 8, [](G g) { return Values{ct(g) * exp(x(g))}; },
       "e to the x, less 1, exact near 0."},
      {Op::tanh, "tanh", 8, [](G g) { return Values{ct(g) * (1 - y(g) * y(g))}; },
       "The hyperbolic tangent."},
      {Op::sqrt, "sqrt", 1, [](G g) { return Values{ct(g) * 0.5 / y(g)}; },
       "The square root; its gradient at 0 is infinite."},
      {Op::rsqrt, "rsqrt", 1, [](G g) { return Values{ct(g) * -0.5 * y(g) / x(g)}; },
       "1 / sqrt(x)."},
      {Op::erf, "erf", 8,
       [](G g) { return Values{ct(g) * (2 / std::sqrt(std::numbers::pi)) * exp(-square(x(g)))}; },
       "The error function."},
      {Op::logistic, "logistic", 8, [](G g) { return Values{ct(g) * y(g) * (1 - y(g))}; },
       "1 / (1 + exp(-x))."},
      {Op::sin, "sin", 8, [](G g) { return Values{ct(g) * cos(x(g))}; }, "Sine of radians."},
      {Op::cos, "cos", 8, [](G g) { return Values{-(ct(g) * sin(x(g)))}; }, "Cosine of radians."},
      {Op::floor, "floor", 1, [](G) { return Values{Value()}; },
       "The largest integer not above x; no gradient anywhere."},
  };
  for (const Unary& u : table) rows.push_back(unary(u));
  rows.push_back({.op = Op::is_finite,
                  .name = "is_finite",
                  .family = OpFamily::kElementwise,
                  .type_rule = [](const OpCall& call) -> std::vector<Type> {
                    need_float(call, 0, "operand");
                    return {call.inputs[0].with(DType::kBool)};
                  },
                  .factors = elementwise_factors,
                  .no_gradient = "its result is bool",
                  .cost = per_result<1>,
                  .doc = "True where x is neither infinite nor NaN."});
  rows.push_back({.op = Op::not_,
                  .name = "not",
                  .family = OpFamily::kElementwise,
                  .type_rule = logic,
                  .factors = elementwise_factors,
                  .no_gradient = "its result is bool",
                  .cost = per_result<1>,
                  .doc = "Logical not of bool."});
}

struct Binary {
  Op op;
  std::string_view name;
  std::vector<Type> (*type_rule)(const OpCall&);
  Linear linear;
  GradientRule gradient;
  std::string_view doc;
};

void add_binary(std::vector<OpRow>& rows) {
  const Binary table[] = {
      {Op::add, "add", number_binary, Linear::kAll, [](G g) { return Values{ct(g), ct(g)}; },
       "a + b; i32 wraps around."},
      {Op::sub, "sub", number_binary, Linear::kAll, [](G g) { return Values{ct(g), -ct(g)}; },
       "a - b; i32 wraps around."},
      {Op::mul, "mul", number_binary, Linear::kEach,
       [](G g) { return Values{ct(g) * rhs(g), ct(g) * x(g)}; }, "a * b; i32 wraps around."},
      {Op::div, "div", number_binary, Linear::kFirst,
       [](G g) { return Values{ct(g) / rhs(g), -(ct(g) * y(g) / rhs(g))}; },
       "a / b; i32 truncates towards zero, and x / 0 is 0."},
      {Op::max, "max", number_binary, Linear::kNo,
       [](G g) -> Values { return share(g, gt(x(g), rhs(g)), eq(x(g), rhs(g))); },
       "The larger of a and b; a tie sends half of the gradient to each."},
      {Op::min, "min", number_binary, Linear::kNo,
       [](G g) -> Values { return share(g, lt(x(g), rhs(g)), eq(x(g), rhs(g))); },
       "The smaller of a and b; a tie sends half of the gradient to each."},
      {Op::pow, "pow", float_binary, Linear::kNo,
       [](G g) -> Values {
         // log of a base that is not positive would turn a zero cotangent into NaN.
         Value safe = where(gt(x(g), 0), x(g), constant_like(x(g), 1));
         // Nor may 0 to the power -1 make one of an exponent of 0.
         Value less = where(eq(rhs(g), 0), constant_like(rhs(g), 0), rhs(g) - 1);
         return {ct(g) * rhs(g) * pow(x(g), less), ct(g) * y(g) * log(safe)};
       },
       "a to the power b; the gradient to b is 0 where a <= 0."},
  };
  for (const Binary& b : table) {
    rows.push_back({.op = b.op,
                    .name = b.name,
                    .family = OpFamily::kElementwise,
                    .inputs_min = 2,
                    .inputs_max = 2,
                    .type_rule = b.type_rule,
                    .factors = elementwise_factors,
                    .linear = b.linear,
                    .keeps_zero = keeps_zero(b.op),
                    .gradient = b.gradient,
                    .cost = b.op == Op::pow ? unary_cost : per_result<1>,
                    .doc = b.doc});
  }
}

void add_predicates(std::vector<OpRow>& rows) {
  struct Predicate {
    Op op;
    std::string_view name, doc;
  };
  const Predicate table[] = {
      {Op::eq, "eq", "True where a equals b."},  {Op::ne, "ne", "True where a differs from b."},
      {Op::lt, "lt", "True where a < b."},       {Op::le, "le", "True where a <= b."},
      {Op::gt, "gt", "True where a > b."},       {Op::ge, "ge", "True where a >= b."},
      {Op::and_, "and", "Logical and of bool."}, {Op::or_, "or", "Logical or of bool."},
  };
  for (const Predicate& p : table) {
    rows.push_back({.op = p.op,
                    .name = p.name,
                    .family = OpFamily::kElementwise,
                    .inputs_min = 2,
                    .inputs_max = 2,
                    .type_rule = p.op == Op::and_ || p.op == Op::or_ ? logic : compare,
                    .factors = elementwise_factors,
                    .keeps_zero = keeps_zero(p.op),
                    .no_gradient = "its result is bool",
                    .cost = per_result<1>,
                    .doc = p.doc});
  }
}

Values convert_gradient(const GradientCall& g) {
  if (!is_float(x(g).dtype())) return {Value()};
  return {convert(ct(g), x(g).dtype(), g.loc)};
}

}  // namespace

std::vector<OpRow> elementwise_rows() {
  std::vector<OpRow> rows;
  add_unary(rows);
  add_binary(rows);
  add_predicates(rows);
  rows.push_back({.op = Op::select,
                  .name = "select",
                  .family = OpFamily::kElementwise,
                  .inputs_min = 3,
                  .inputs_max = 3,
                  .type_rule = select_type,
                  .factors = elementwise_factors,
                  .linear = Linear::kAll,
                  .keeps_zero = keeps_zero(Op::select),
                  .gradient = [](G g) -> Values {
                    Value none = zeros_like(g, ct(g));
                    return {Value(), where(x(g), ct(g), none), where(x(g), none, ct(g))};
                  },
                  .cost = per_result<1>,
                  .doc = "(condition, then, otherwise): `then` where the condition holds."});
  rows.push_back({.op = Op::convert,
                  .name = "convert",
                  .family = OpFamily::kElementwise,
                  .attrs = {{"dtype", AttrKind::kDType, {}, "the new element type"}},
                  .type_rule = [](const OpCall& call) -> std::vector<Type> {
                    return {call.inputs[0].with(call.attrs.dtype("dtype"))};
                  },
                  .factors = elementwise_factors,
                  .linear = Linear::kAll,
                  .keeps_zero = keeps_zero(Op::convert),
                  .gradient = convert_gradient,
                  .cost = per_result<1>,
                  .doc = "Another element type. To bf16 and f32: nearest, ties to even. Float to "
                         "i32: truncated, saturated, NaN is 0. To bool: not equal to 0."});
  return rows;
}

}  // namespace gangway::internal
