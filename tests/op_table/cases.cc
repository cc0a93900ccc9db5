#include "tests/op_table/cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway::op_table {
namespace {

double draw(Fill fill, Rng& rng) {
  switch (fill) {
    case Fill::kAny: return static_cast<double>(rng.below(4)) - 2 + 0.1 + 0.8 * rng.uniform();
    case Fill::kPositive: return 0.3 + 1.7 * rng.uniform();
    case Fill::kInteger: return static_cast<double>(rng.below(41)) - 20;
    case Fill::kBool: return static_cast<double>(rng.below(2));
    case Fill::kDistinct: return 0;
  }
  return 0;
}

}  // namespace

Literal random_literal(Type type, Fill fill, Rng& rng) {
  Literal literal = filled(std::move(type), 0);
  std::vector<double>& values = literal.values;
  if (fill == Fill::kDistinct) {
    std::iota(values.begin(), values.end(), -static_cast<double>(values.size()) / 2);
    std::shuffle(values.begin(), values.end(), rng);
    for (double& value : values) value = value * 0.125 + 0.03125;
  } else {
    for (double& value : values) value = draw(fill, rng);
  }
  round_values(literal);
  return literal;
}

Literal random_index(Dims dims, int64_t low, int64_t high, Rng& rng) {
  Literal literal = filled(i32(std::move(dims)), 0);
  for (double& value : literal.values) {
    value = static_cast<double>(low) +
            static_cast<double>(rng.below(static_cast<uint64_t>(high - low)));
  }
  return literal;
}

std::vector<OpCase> all_cases(DType dtype) {
  std::vector<OpCase> cases;
  add_elementwise_cases(dtype, cases);
  add_shape_cases(dtype, cases);
  add_index_cases(dtype, cases);
  add_composite_cases(dtype, cases);
  add_moe_cases(dtype, cases);
  return cases;
}

void add_elementwise_cases(DType dtype, std::vector<OpCase>& cases) {
  const std::vector<Dims> shapes = {{4, 6}, {1}, {0, 3}, {}, {3, 1, 5}};
  auto unary = [&](Op op, Fill fill) {
    for (const Dims& dims : shapes) cases.push_back({op, {}, inputs({{{dtype, dims}, fill}}), {}});
  };
  for (Op op : {Op::neg, Op::abs, Op::sign, Op::exp, Op::expm1, Op::tanh, Op::erf, Op::logistic,
                Op::sin, Op::cos, Op::floor, Op::is_finite, Op::stop_gradient, Op::barrier}) {
    unary(op, Fill::kAny);
  }
  for (const Dims& dims : shapes) {
    cases.push_back(
        {Op::constrain, {{"placements", ""}}, inputs({{{dtype, dims}, Fill::kAny}}), {}});
  }
  for (Op op : {Op::log, Op::log1p, Op::sqrt, Op::rsqrt}) unary(op, Fill::kPositive);
  for (const Dims& dims : shapes) {
    auto binary = [&](Op op, DType of, Fill a, Fill b) {
      cases.push_back({op, {}, inputs({{{of, dims}, a}, {{of, dims}, b}}), {}});
    };
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::max, Op::min, Op::eq, Op::ne, Op::lt,
                  Op::le, Op::gt, Op::ge}) {
      binary(op, dtype, Fill::kAny, Fill::kAny);
      binary(op, DType::kI32, Fill::kInteger, Fill::kInteger);
    }
    binary(Op::pow, dtype, Fill::kPositive, Fill::kAny);
    for (Op op : {Op::and_, Op::or_}) binary(op, DType::kBool, Fill::kBool, Fill::kBool);
    cases.push_back({Op::not_, {}, inputs({{boolean(dims), Fill::kBool}}), {}});
    cases.push_back({Op::neg, {}, inputs({{i32(dims), Fill::kInteger}}), {}});
    cases.push_back({Op::select,
                     {},
                     inputs({{boolean(dims), Fill::kBool}, {{dtype, dims}}, {{dtype, dims}}}),
                     {}});
    for (DType to : {DType::kBool, DType::kI32, DType::kBF16, DType::kF64}) {
      cases.push_back({Op::convert, {{"dtype", to}}, inputs({{{dtype, dims}}}), {}});
      cases.push_back({Op::convert, {{"dtype", to}}, inputs({{i32(dims), Fill::kInteger}}), {}});
    }
    cases.push_back({Op::timed, {{"microseconds", int64_t{5}}}, inputs({{{dtype, dims}}}), {}});
    cases.push_back(
        {Op::all_reduce, {{"axes", std::string("data")}}, inputs({{{dtype, dims}}}), {}});
  }
}

void add_index_cases(DType dtype, std::vector<OpCase>& cases) {
  for (auto [rows, width] : {std::pair<int64_t, int64_t>{6, 4}, {1, 1}, {5, 3}}) {
    for (const Dims& dims : {Dims{2, 4}, Dims{}, Dims{0}, Dims{7}}) {
      Type table{dtype, {rows, width}};
      Dims wide = dims;
      wide.push_back(width);
      cases.push_back({Op::take,
                       {},
                       [=](Rng& rng) {
                         return std::vector{random_literal(table, Fill::kAny, rng),
                                            random_index(dims, -1, table.dims[0] + 1, rng)};
                       },
                       {}});
      cases.push_back({Op::scatter_add,
                       {{"rows", rows}},
                       [=](Rng& rng) {
                         return std::vector{random_index(dims, -1, table.dims[0] + 1, rng),
                                            random_literal({dtype, wide}, Fill::kAny, rng)};
                       },
                       {}});
    }
  }
  auto start = [](Rng& rng) { return random_index({}, -2, 8, rng); };
  for (int64_t axis : {0, 1}) {
    for (int64_t size : {0, 1, 3}) {
      Type x{dtype, {4, 6}}, window = x;
      window.dims[static_cast<size_t>(axis)] = size;
      cases.push_back(
          {Op::dynamic_slice,
           {{"axis", axis}, {"size", size}},
           [=](Rng& rng) { return std::vector{random_literal(x, Fill::kAny, rng), start(rng)}; },
           {}});
      cases.push_back({Op::dynamic_update,
                       {{"axis", axis}},
                       [=](Rng& rng) {
                         return std::vector{random_literal(x, Fill::kAny, rng),
                                            random_literal(window, Fill::kAny, rng), start(rng)};
                       },
                       {}});
    }
  }
  for (const Dims& dims : {Dims{4, 6}, Dims{5}, Dims{0, 3}, Dims{2, 3, 4}}) {
    for (int64_t k : {int64_t{1}, int64_t{2}, dims.back()})
      cases.push_back({Op::top_k, {{"k", k}}, inputs({{{dtype, dims}, Fill::kDistinct}}), {}});
    cases.push_back({Op::sort, {}, inputs({{{dtype, dims}, Fill::kDistinct}}), {}});
    cases.push_back({Op::sort, {}, inputs({{i32(dims), Fill::kInteger}}), {}});
  }
  for (Op op : {Op::random_uniform, Op::random_normal}) {
    for (const Dims& dims : {Dims{5, 3}, Dims{}, Dims{0}, Dims{4, 6}}) {
      Attrs attrs{{"dims", dims}, {"dtype", dtype}};
      cases.push_back({op, attrs, inputs({{i32({2}), Fill::kInteger}}), {}});
    }
  }
}

}  // namespace gangway::op_table
