// References of the element-wise ops.
#include <cmath>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

template <double (*F)(double)>
void unary(const EvaluateCall& e) {
  for (size_t i = 0; i < e.y().size(); ++i) e.y()[i] = F(e.x()[i]);
}

template <double (*F)(double, double)>
void binary(const EvaluateCall& e) {
  bool integer = e.in[0].type.dtype == DType::kI32;
  for (size_t i = 0; i < e.y().size(); ++i) {
    double y = F(e.x(0)[i], e.x(1)[i]);
    e.y()[i] = integer ? wrap_i32(y) : y;
  }
}

double negate(double x) { return -x; }
double sign_of(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }
double logistic_of(double x) { return 1 / (1 + std::exp(-x)); }
double finite(double x) { return std::isfinite(x); }
double invert(double x) { return x == 0; }
double plus(double a, double b) { return a + b; }
double minus(double a, double b) { return a - b; }
double times(double a, double b) { return a * b; }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double equal(double a, double b) { return a == b; }
double differ(double a, double b) { return a != b; }
double less(double a, double b) { return a < b; }
double less_equal(double a, double b) { return a <= b; }
double more(double a, double b) { return a > b; }
double more_equal(double a, double b) { return a >= b; }
double both(double a, double b) { return a != 0 && b != 0; }
double either(double a, double b) { return a != 0 || b != 0; }

// A double does not hold every product of two i32.
void multiply(const EvaluateCall& e) {
  if (e.in[0].type.dtype != DType::kI32) return binary<times>(e);
  for (size_t i = 0; i < e.y().size(); ++i) {
    auto product = static_cast<int64_t>(e.x(0)[i]) * static_cast<int64_t>(e.x(1)[i]);
    e.y()[i] = static_cast<int32_t>(static_cast<uint32_t>(product));
  }
}

void divide(const EvaluateCall& e) {
  bool integer = e.in[0].type.dtype == DType::kI32;
  for (size_t i = 0; i < e.y().size(); ++i) {
    double a = e.x(0)[i], b = e.x(1)[i];
    e.y()[i] = !integer ? a / b : b == 0 ? 0 : wrap_i32(std::trunc(a / b));
  }
}

void select(const EvaluateCall& e) {
  for (size_t i = 0; i < e.y().size(); ++i) e.y()[i] = e.x(0)[i] != 0 ? e.x(1)[i] : e.x(2)[i];
}

void convert(const EvaluateCall& e) {
  for (size_t i = 0; i < e.y().size(); ++i) e.y()[i] = e.x()[i];  // evaluate() rounds.
}

}  // namespace

std::vector<ReferenceRow> elementwise_references() {
  return {
      {Op::neg, unary<negate>},
      {Op::abs, unary<std::fabs>},
      {Op::sign, unary<sign_of>},
      {Op::exp, unary<std::exp>},
      {Op::log, unary<std::log>},
      {Op::log1p, unary<std::log1p>},
      {Op::expm1, unary<std::expm1>},
      {Op::tanh, unary<std::tanh>},
      {Op::sqrt, unary<std::sqrt>},
      {Op::rsqrt, unary<rsqrt_of>},
      {Op::erf, unary<std::erf>},
      {Op::logistic, unary<logistic_of>},
      {Op::sin, unary<std::sin>},
      {Op::cos, unary<std::cos>},
      {Op::floor, unary<std::floor>},
      {Op::is_finite, unary<finite>},
      {Op::not_, unary<invert>},
      {Op::add, binary<plus>},
      {Op::sub, binary<minus>},
      {Op::mul, multiply},
      {Op::div, divide},
      {Op::max, binary<larger>},
      {Op::min, binary<smaller>},
      {Op::pow, binary<std::pow>},
      {Op::eq, binary<equal>},
      {Op::ne, binary<differ>},
      {Op::lt, binary<less>},
      {Op::le, binary<less_equal>},
      {Op::gt, binary<more>},
      {Op::ge, binary<more_equal>},
      {Op::and_, binary<both>},
      {Op::or_, binary<either>},
      {Op::select, select},
      {Op::convert, convert},
      {Op::stop_gradient, convert},
      {Op::barrier, convert},
      {Op::constrain, convert},
      {Op::timed, convert},
  };
}

}  // namespace gangway::internal
