#include "executor/kernels/fused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using namespace test;
using In = FusedInput;

std::vector<Buffer> run_program(Parallel& par, const FusedProgram& program, int64_t outer,
                                int64_t inner, const std::vector<const Buffer*>& inputs) {
  std::vector<const void*> in;
  for (const Buffer* b : inputs) in.push_back(b->data());
  std::vector<Buffer> results;
  std::vector<void*> out;
  for (const FusedOutput& o : program.outputs) results.emplace_back(o.dtype, outer * inner);
  for (Buffer& b : results) out.push_back(b.data());
  Fused(program).run(par, outer, inner, in, out);
  return results;
}

struct UnaryCase {
  FusedOp op;
  double (*reference)(double);
  double low, high, ulps;
};
const UnaryCase kUnary[] = {
    {FusedOp::kNeg, [](double x) { return -x; }, -9, 9, 0.6},
    {FusedOp::kAbs, [](double x) { return std::abs(x); }, -9, 9, 0.6},
    {FusedOp::kSign, [](double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : x); }, -9, 9, 0.6},
    {FusedOp::kExp, [](double x) { return std::exp(x); }, -86, 88, 2.5},
    {FusedOp::kLog, [](double x) { return std::log(x); }, 1e-6, 50, 2.5},
    {FusedOp::kLog1p, [](double x) { return std::log1p(x); }, -0.9, 3, 4},
    {FusedOp::kExpm1, [](double x) { return std::expm1(x); }, -86, 88, 4},
    {FusedOp::kTanh, [](double x) { return std::tanh(x); }, -6, 6, 4},
    {FusedOp::kSqrt, [](double x) { return std::sqrt(x); }, 0, 100, 0.6},
    {FusedOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.01, 100, 1.6},
    {FusedOp::kErf, [](double x) { return std::erf(x); }, -5, 5, 4},
    {FusedOp::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 4},
    {FusedOp::kSin, [](double x) { return std::sin(x); }, -10, 10, 1},
    {FusedOp::kCos, [](double x) { return std::cos(x); }, -10, 10, 1},
    {FusedOp::kFloor, [](double x) { return std::floor(x); }, -9, 9, 0.6},
};

double ulp_of(DType dtype, double x) {
  const int digits = dtype == DType::kF64 ? 53 : (dtype == DType::kBF16 ? 8 : 24);
  return std::ldexp(
      1.0,
      std::max(std::ilogb(x == 0 ? 1e-300 : x), dtype == DType::kF64 ? -1022 : -126) - digits + 1);
}

TEST(Fused, ElementaryFunctionsStayWithinTheirUlps) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (const UnaryCase& c : kUnary) {
      std::vector<double> x = randoms(rng, dtype, 5003, c.low, c.high);
      for (size_t i = 0; i < 500 && c.low < 0; ++i) x[i] /= 1 << (i % 24);  // Near zero.
      const Buffer in(dtype, x);
      for (KernelIsa isa : isas()) {
        Parallel par(1, isa);
        const auto out = run_program(par, {{{dtype}}, {{c.op, dtype, {0, 0, 0}, 0}}, {{1, dtype}}},
                                     1, in.size(), {&in});
        for (int64_t i = 0; i < in.size(); ++i) {
          const double want = c.reference(in.get(i));
          const double allowed = dtype == DType::kF32 ? c.ulps : (dtype == DType::kBF16 ? 0.51 : 3);
          ASSERT_LE(std::abs(out[0].get(i) - want), allowed * ulp_of(dtype, want))
              << "op " << static_cast<int>(c.op) << " of " << in.get(i) << " in "
              << to_string(dtype) << " on " << to_string(isa);
        }
      }
    }
  }
}

TEST(Fused, ElementaryFunctionsKeepTheirLimits) {
  const double inf = INFINITY, nan = NAN;
  struct Case {
    FusedOp op;
    double x, want;
  };
  const Case cases[] = {
      {FusedOp::kExp, -inf, 0},      {FusedOp::kExp, inf, inf},      {FusedOp::kExp, 1000, inf},
      {FusedOp::kExp, -1000, 0},     {FusedOp::kExp, nan, nan},      {FusedOp::kExp, 0, 1},
      {FusedOp::kLog, 0, -inf},      {FusedOp::kLog, -1, nan},       {FusedOp::kLog, inf, inf},
      {FusedOp::kLog, nan, nan},     {FusedOp::kLog, 1, 0},          {FusedOp::kLog1p, -1, -inf},
      {FusedOp::kLog1p, -2, nan},    {FusedOp::kLog1p, inf, inf},    {FusedOp::kLog1p, 0, 0},
      {FusedOp::kLog1p, nan, nan},   {FusedOp::kExpm1, inf, inf},    {FusedOp::kExpm1, -inf, -1},
      {FusedOp::kExpm1, 1000, inf},  {FusedOp::kExpm1, -1000, -1},   {FusedOp::kExpm1, nan, nan},
      {FusedOp::kExpm1, 0, 0},       {FusedOp::kTanh, inf, 1},       {FusedOp::kTanh, -inf, -1},
      {FusedOp::kTanh, nan, nan},    {FusedOp::kTanh, 0, 0},         {FusedOp::kErf, inf, 1},
      {FusedOp::kErf, -inf, -1},     {FusedOp::kErf, nan, nan},      {FusedOp::kLogistic, inf, 1},
      {FusedOp::kLogistic, -inf, 0}, {FusedOp::kLogistic, nan, nan}, {FusedOp::kLogistic, 0, 0.5},
      {FusedOp::kSign, nan, nan},    {FusedOp::kSign, 0, 0},         {FusedOp::kFloor, inf, inf},
      {FusedOp::kFloor, nan, nan},   {FusedOp::kFloor, -0.5, -1},    {FusedOp::kFloor, 1e9, 1e9},
      {FusedOp::kSqrt, -1, nan},     {FusedOp::kRsqrt, 0, inf}};
  for (DType dtype : kFloats) {
    for (const Case& c : cases) {
      const Buffer in(dtype, {c.x, c.x, c.x});
      check_everywhere(cat("op ", static_cast<int>(c.op), " of ", c.x),
                       [&](Parallel& par) {
                         return run_program(
                             par, {{{dtype}}, {{c.op, dtype, {0, 0, 0}, 0}}, {{1, dtype}}}, 1, 3,
                             {&in});
                       },
                       {{{c.want, c.want, c.want}, 1}});
    }
  }
}

struct BinaryCase {
  FusedOp op;
  double (*reference)(double, double);
};
const BinaryCase kBinary[] = {
    {FusedOp::kAdd, [](double x, double y) { return x + y; }},
    {FusedOp::kSub, [](double x, double y) { return x - y; }},
    {FusedOp::kMul, [](double x, double y) { return x * y; }},
    {FusedOp::kDiv, [](double x, double y) { return x / y; }},
    {FusedOp::kMax,
     [](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }},
    {FusedOp::kMin,
     [](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }},
    {FusedOp::kEq, [](double x, double y) { return x == y ? 1.0 : 0.0; }},
    {FusedOp::kNe, [](double x, double y) { return x != y ? 1.0 : 0.0; }},
    {FusedOp::kLt, [](double x, double y) { return x < y ? 1.0 : 0.0; }},
    {FusedOp::kLe, [](double x, double y) { return x <= y ? 1.0 : 0.0; }},
    {FusedOp::kGt, [](double x, double y) { return x > y ? 1.0 : 0.0; }},
    {FusedOp::kGe, [](double x, double y) { return x >= y ? 1.0 : 0.0; }},
};

TEST(Fused, BinaryOpsAndComparisonsEqualTheirDefinitionInEveryType) {
  std::mt19937 rng = seeded();
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32}) {
    const bool integer = dtype == DType::kI32;
    for (auto [op, reference] : kBinary) {
      for (int64_t n : {int64_t{1}, int64_t{33}, int64_t{4099}}) {
        std::vector<double> x = randoms(rng, dtype, n, -20, 20),
                            y = randoms(rng, dtype, n, -20, 20);
        for (size_t i = 0; i < x.size(); i += 7) x[i] = y[i];
        if (!integer && n > 2) x[1] = NAN, y[2] = NAN;
        const Buffer a(dtype, x), b(dtype, y);
        const DType to = op >= FusedOp::kEq ? DType::kBool : dtype;
        std::vector<double> want;
        for (int64_t i = 0; i < n; ++i) {
          const double exact = reference(a.get(i), b.get(i));
          want.push_back(!integer ? exact : (std::isfinite(exact) ? std::trunc(exact) : 0));
        }
        const FusedProgram program{{{dtype}, {dtype}}, {{op, to, {0, 1, 0}, 0}}, {{2, to}}};
        check_everywhere(cat("op ", static_cast<int>(op), " in ", to_string(dtype)),
                         [&](Parallel& par) { return run_program(par, program, 1, n, {&a, &b}); },
                         {{want, 1}});
      }
    }
  }
}

TEST(Fused, IntegersWrapAndDivisionByZeroIsZero) {
  const Buffer a(DType::kI32, {2147483647, -2147483648.0, 7, -7, 5}),
      b(DType::kI32, {1, -1, 0, 2, -3});
  auto check = [&](FusedOp op, std::vector<double> want) {
    check_everywhere(cat("op ", static_cast<int>(op)),
                     [&](Parallel& par) {
                       return run_program(par,
                                          {{{DType::kI32}, {DType::kI32}},
                                           {{op, DType::kI32, {0, 1, 0}, 0}},
                                           {{2, DType::kI32}}},
                                          1, 5, {&a, &b});
                     },
                     {{want, 0}});
  };
  check(FusedOp::kAdd, {-2147483648.0, 2147483647, 7, -5, 2});
  check(FusedOp::kDiv, {2147483647, -2147483648.0, 0, -3, -1});
  check(FusedOp::kMul, {2147483647, -2147483648.0, 0, -14, -15});
}

TEST(Fused, ConvertsBetweenAllTypes) {
  const std::vector<double> values = {0, 1, -1, 2.75, -2.75, 300, 1e10, -1e10, NAN};
  for (DType from : {DType::kBool, DType::kI32, DType::kBF16, DType::kF32, DType::kF64}) {
    Buffer in(from, static_cast<int64_t>(values.size()));
    for (int64_t i = 0; i < in.size(); ++i) {
      const double x = values[static_cast<size_t>(i)];
      in.set(i, from == DType::kI32
                    ? (std::isnan(x) ? 0 : std::clamp(x, -2147483648.0, 2147483647.0))
                    : x);
    }
    for (DType to : {DType::kBool, DType::kI32, DType::kBF16, DType::kF32, DType::kF64}) {
      std::vector<double> want;
      for (double x : in.values()) {
        if (to == DType::kBool) x = x != 0;
        if (to == DType::kI32)
          x = std::isnan(x) ? 0 : std::clamp(std::trunc(x), -2147483648.0, 2147483647.0);
        want.push_back(x);
      }
      want = [&] {
        Buffer rounded(to, want);
        return rounded.values();
      }();
      check_everywhere(cat(to_string(from), " to ", to_string(to)),
                       [&](Parallel& par) {
                         return run_program(
                             par, {{{from}}, {{FusedOp::kConvert, to, {0, 0, 0}, 0}}, {{1, to}}}, 1,
                             in.size(), {&in});
                       },
                       {{want, 0}});
    }
  }
}

TEST(Fused, LogicSelectAndIsFinite) {
  const Buffer a(DType::kBool, {0, 0, 1, 1}), b(DType::kBool, {0, 1, 0, 1}),
      x(DType::kF32, {1, NAN, INFINITY, -4});
  const FusedProgram program{{{DType::kBool}, {DType::kBool}, {DType::kF32}},
                             {{FusedOp::kAnd, DType::kBool, {0, 1, 0}, 0},
                              {FusedOp::kOr, DType::kBool, {0, 1, 0}, 0},
                              {FusedOp::kNot, DType::kBool, {0, 0, 0}, 0},
                              {FusedOp::kIsFinite, DType::kBool, {2, 0, 0}, 0},
                              {FusedOp::kConstant, DType::kF32, {0, 0, 0}, -7.5},
                              {FusedOp::kSelect, DType::kF32, {6, 2, 7}, 0}},
                             {{3, DType::kBool},
                              {4, DType::kBool},
                              {5, DType::kBool},
                              {6, DType::kBool},
                              {8, DType::kF32}}};
  check_everywhere("logic",
                   [&](Parallel& par) { return run_program(par, program, 1, 4, {&a, &b, &x}); },
                   {{{0, 0, 0, 1}, 0},
                    {{0, 1, 1, 1}, 0},
                    {{1, 1, 0, 0}, 0},
                    {{1, 0, 0, 1}, 0},
                    {{1, -7.5, -7.5, -4}, 0}});
}

// y = (full * inner + outer) * scalar, of which both the product and the whole are kept.
TEST(Fused, BroadcastsRowsColumnsAndScalarsAtAnyWidth) {
  std::mt19937 rng = seeded();
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32}) {
    const FusedProgram program{
        {{dtype, In::kFull}, {dtype, In::kInner}, {dtype, In::kOuter}, {dtype, In::kScalar}},
        {{FusedOp::kMul, dtype, {0, 1, 0}, 0},
         {FusedOp::kAdd, dtype, {4, 2, 0}, 0},
         {FusedOp::kMul, dtype, {5, 3, 0}, 0}},
        {{4, dtype}, {6, dtype}}};
    for (auto [outer, inner] : {std::array<int64_t, 2>{1, 1},
                                {5, 3},
                                {129, 17},
                                {7, 64},
                                {3, 2500},
                                {2, 5003},
                                {0, 4},
                                {4, 0}}) {
      const Buffer full(dtype, randoms(rng, dtype, outer * inner, -8, 8)),
          row(dtype, randoms(rng, dtype, inner, -8, 8));
      const Buffer column(dtype, randoms(rng, dtype, outer, -8, 8)), one(dtype, {3});
      std::vector<double> product, whole;
      for (int64_t i = 0; i < outer * inner; ++i) {
        product.push_back(full.get(i) * row.get(i % inner));
        whole.push_back((product.back() + column.get(i / inner)) * 3);
      }
      check_everywhere(cat(outer, "x", inner, " ", to_string(dtype)),
                       [&, o = outer, n = inner](Parallel& par) {
                         return run_program(par, program, o, n, {&full, &row, &column, &one});
                       },
                       {{product, 2}, {whole, 4}});
    }
  }
}

TEST(Fused, MayWriteOverAnInput) {
  std::mt19937 rng = seeded();
  const auto a = randoms(rng, DType::kF32, 5000), b = randoms(rng, DType::kF32, 5000);
  const Fused swap_sum(
      {{{DType::kF32}, {DType::kF32}},
       {{FusedOp::kAdd, DType::kF32, {0, 1, 0}, 0}, {FusedOp::kSub, DType::kF32, {0, 1, 0}, 0}},
       {{2, DType::kF32}, {3, DType::kF32}}});
  std::vector<double> sum, difference;
  for (size_t i = 0; i < a.size(); ++i)
    sum.push_back(a[i] + b[i]), difference.push_back(a[i] - b[i]);
  check_everywhere("in place",
                   [&](Parallel& par) {
                     Buffer x(DType::kF32, a), y(DType::kF32, b);
                     const void* in[] = {x.data(), y.data()};
                     void* out[] = {x.data(), y.data()};
                     swap_sum.run(par, 1, 5000, in, out);
                     return outputs(std::move(x), std::move(y));
                   },
                   {{sum, 1}, {difference, 1}});
}

// Stretches of zeros, of -0 and of one number among zeros, each longer than what is computed at
// once.
TEST(Fused, ZerosGiveWhatTheyGiveAmongOtherElements) {
  constexpr int64_t kN = 5 * 4096 + 17;
  for (DType dtype : kFloats) {
    const FusedProgram program{.inputs = {{dtype, In::kFull}, {dtype, In::kFull}},
                               .code = {{FusedOp::kExp, dtype, {0}},
                                        {FusedOp::kAdd, dtype, {2, 1}},
                                        {FusedOp::kDiv, dtype, {2, 0}}},
                               .outputs = {{3, dtype}, {4, dtype}}};
    Buffer x(dtype, kN), y(dtype, kN);
    for (int64_t i = 0; i < kN; ++i) {
      x.set(i, i < 4096 ? -0.0 : 0.0);
      y.set(i, 0);
    }
    x.set(2 * 4096 + 5, 1.5);
    y.set(kN - 1, -2);
    for (int threads : {1, 3}) {
      Parallel par(threads);
      const std::vector<Buffer> got = run_program(par, program, 1, kN, {&x, &y});
      for (int64_t i = 0; i < kN; ++i) {
        ASSERT_NEAR(got[0].get(i), std::exp(x.get(i)) + y.get(i), 0.02) << i;
        ASSERT_EQ(std::isinf(got[1].get(i)), x.get(i) == 0) << i;
        ASSERT_EQ(std::signbit(got[1].get(i)), i < 4096) << i;
      }
    }
  }
}

TEST(Fused, Bf16InstructionsRoundAsUnfusedOpsWould) {
  const Buffer x(DType::kBF16, {1}), tiny(DType::kBF16, {0.001});
  auto program = [](DType inside) {
    return FusedProgram{
        {{DType::kBF16}, {DType::kBF16}},
        {{FusedOp::kAdd, inside, {0, 1, 0}, 0}, {FusedOp::kSub, DType::kF32, {2, 0, 0}, 0}},
        {{3, DType::kF32}}};
  };
  check_everywhere(
      "rounded",
      [&](Parallel& par) { return run_program(par, program(DType::kBF16), 1, 1, {&x, &tiny}); },
      {{{0}, 0}});
  check_everywhere(
      "kept",
      [&](Parallel& par) { return run_program(par, program(DType::kF32), 1, 1, {&x, &tiny}); },
      {{{tiny.get(0)}, 1000}});
}

TEST(Fused, Bf16ResultsRoundToEvenAndKeepInfinitiesAndNaN) {
  // Halfway between two bf16 numbers, a little to either side, past the largest one, and no number.
  const double step = std::pow(2.0, -7), largest = 3.3895313892515355e38;
  const std::vector<double> a = {1, 1 + step, 1, 1, -1, largest, largest, -largest, INFINITY, NAN},
                            b = {step / 2,    step / 2,       step * 0.51, step * 0.49, -step * 1.5,
                                 largest / 4, largest / 1024, -largest,    -INFINITY,   1};
  const std::vector<double> want = {1,        1 + 2 * step, 1 + step,  1,   -1 - 2 * step,
                                    INFINITY, largest,      -INFINITY, NAN, NAN};
  const Buffer x(DType::kF32, a), y(DType::kF32, b);
  for (DType out : {DType::kBF16, DType::kF32}) {
    check_everywhere(cat("rounding to bf16, kept as ", to_string(out)),
                     [&](Parallel& par) {
                       return run_program(par,
                                          {{{DType::kF32}, {DType::kF32}},
                                           {{FusedOp::kAdd, DType::kBF16, {0, 1, 0}, 0}},
                                           {{2, out}}},
                                          1, x.size(), {&x, &y});
                     },
                     {{want, 0}});
  }
}

TEST(Fused, LongChainsReuseTheirRegisters) {
  FusedProgram program{{{DType::kF32}, {DType::kF32}}, {}, {}};
  for (int i = 0; i < 200; ++i)
    program.code.push_back({FusedOp::kAdd, DType::kF32, {i + 1, 0, 0}, 0});
  program.outputs = {{201, DType::kF32}};
  const Buffer one(DType::kF32, std::vector<double>(3000, 1)),
      start(DType::kF32, std::vector<double>(3000, 5));
  check_everywhere(
      "chain", [&](Parallel& par) { return run_program(par, program, 1, 3000, {&one, &start}); },
      {{std::vector<double>(3000, 205), 0}});
}

TEST(Fused, AConstantsLastReaderFreesNothingThatIsStillNeeded) {
  FusedProgram program;
  program.inputs = {{DType::kF32, In::kFull}};
  program.code = {{FusedOp::kConstant, DType::kF32, {}, 0.5},
                  {FusedOp::kMul, DType::kF32, {0, 1}, 0},
                  {FusedOp::kMul, DType::kF32, {2, 2}, 0}};
  program.outputs = {{2, DType::kF32}, {3, DType::kF32}};
  Parallel par(1);
  const Buffer x(DType::kF32, std::vector<double>(100, 3.0));
  const std::vector<Buffer> out = run_program(par, program, 1, 100, {&x});
  EXPECT_EQ(out[0].get(0), 1.5);
  EXPECT_EQ(out[1].get(0), 2.25);
}

TEST(Fused, RefusesProgramsThatMakeNoSense) {
  auto message = [](const FusedProgram& program) -> std::string {
    try {
      Fused fused(program);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kInvalid ? error.what() : "another kind";
    }
    return "accepted";
  };
  EXPECT_THAT(message({{{DType::kF32}}, {{FusedOp::kNeg, DType::kF32, {1, 0, 0}, 0}}, {}}),
              testing::HasSubstr("reads value 1"));
  EXPECT_THAT(
      message({{{DType::kF32}, {DType::kI32}}, {{FusedOp::kAdd, DType::kF32, {0, 1, 0}, 0}}, {}}),
      testing::HasSubstr("types that do not fit"));
  EXPECT_THAT(message({{{DType::kI32}}, {{FusedOp::kExp, DType::kI32, {0, 0, 0}, 0}}, {}}),
              testing::HasSubstr("types that do not fit"));
  EXPECT_THAT(message({{{DType::kI32}}, {}, {{3, DType::kI32}}}),
              testing::HasSubstr("names value 3"));
  EXPECT_THAT(message({{{DType::kI32}}, {}, {{0, DType::kF32}}}),
              testing::HasSubstr("differs from its value's"));
}

}  // namespace
}  // namespace gangway
