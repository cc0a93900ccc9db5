// Generated chains, element by element and in strips, are compared with the CPU's interpreter of
// the same program. Their ops are exact, so the bits must be equal.
#include "executor/devices/cuda/lower/chain_source.h"

#include <gtest/gtest.h>

#include "executor/devices/cuda/kernels/chain/row_reads.h"
#include "executor/kernels/fused.h"
#include "runtime/base/rng.h"
#include "tests/emulated/gpu_test.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

using cuda::chain_source;
using cuda::chain_width;
using cuda::ChainRead;

// Computes max(x + row, column) and x > scalar from a matrix, a row, a column and a scalar.
FusedProgram program_of(DType x, DType row) {
  const DType wide = x == DType::kBF16 ? DType::kF32 : x;
  return {.inputs = {{x, FusedInput::kFull},
                     {row, FusedInput::kInner},
                     {wide, FusedInput::kOuter},
                     {wide, FusedInput::kScalar}},
          .code = {{FusedOp::kConvert, wide, {0}},
                   {FusedOp::kConvert, wide, {1}},
                   {FusedOp::kAdd, wide, {4, 5}},
                   {FusedOp::kMax, wide, {6, 2}},
                   {FusedOp::kConvert, x, {7}},
                   {FusedOp::kGt, DType::kBool, {4, 3}}},
          .outputs = {{8, x}, {7, wide}, {9, DType::kBool}}};
}

// Arithmetic that is rounded after each instruction: -|x| * 0.3 + (x - row) * column, and whether
// it is below zero.
FusedProgram rounding_program(DType x) {
  return {.inputs = {{x, FusedInput::kFull},
                     {x, FusedInput::kInner},
                     {x, FusedInput::kOuter},
                     {x, FusedInput::kScalar}},
          .code = {{FusedOp::kAbs, x, {0}},
                   {FusedOp::kNeg, x, {4}},
                   {FusedOp::kConstant, x, {}, 0.3},
                   {FusedOp::kMul, x, {5, 6}},
                   {FusedOp::kSub, x, {0, 1}},
                   {FusedOp::kMul, x, {8, 2}},
                   {FusedOp::kAdd, x, {7, 9}},
                   {FusedOp::kDiv, x, {10, 3}},
                   {FusedOp::kMin, x, {11, 10}},
                   {FusedOp::kLt, DType::kBool, {12, 6}}},
          .outputs = {{10, x}, {12, x}, {13, DType::kBool}}};
}

class Chains : public ::testing::TestWithParam<std::tuple<DType, DType, uint64_t>> {
 protected:
  using Bytes = std::vector<std::byte>;

  Bytes numbers(DType dtype, int64_t n) {
    Bytes made(static_cast<size_t>(n) * size_of(dtype));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const double x = rng_.uniform() * 8 - 4;
      const auto single = static_cast<float>(x);
      if (dtype == DType::kF64) {
        std::memcpy(&made[i * 8], &x, 8);
      } else if (dtype == DType::kF32) {
        std::memcpy(&made[i * 4], &single, 4);
      } else {
        const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
        std::memcpy(&made[i * 2], &half, 2);
      }
    }
    return made;
  }

  void check(const FusedProgram& program, int64_t outer, int64_t inner, int64_t width) {
    SCOPED_TRACE(cat("[", outer, ", ", inner, "] by ", width));
    std::vector<Bytes> inputs, want, got;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const FusedInput& input : program.inputs) {
      const int64_t n =
          (input.kind == FusedInput::kFull || input.kind == FusedInput::kInner) * (inner - 1) + 1;
      const int64_t m = input.kind == FusedInput::kFull || input.kind == FusedInput::kOuter;
      inputs.push_back(numbers(input.dtype, n * (m * (outer - 1) + 1)));
    }
    for (const FusedOutput& output : program.outputs)
      want.emplace_back(static_cast<size_t>(outer * inner) * size_of(output.dtype));
    for (const Bytes& bytes : inputs) in.push_back(bytes.data());
    for (Bytes& bytes : want) out.push_back(bytes.data());
    Parallel one{1};
    Fused(program).run(one, outer, inner, in, out);
    EXPECT_EQ(run(program, inputs, want, outer, inner, width), want);
  }

  std::vector<Bytes> run(const FusedProgram& program, const std::vector<Bytes>& inputs,
                         const std::vector<Bytes>& like, int64_t outer, int64_t inner,
                         int64_t width) {
    EmulatedMachine machine({.seed = seed_});
    Gpu gpu(machine);
    std::vector<std::byte*> data;
    std::vector<cuda::Access> accesses;
    for (const Bytes& bytes : inputs) {
      data.push_back(gpu.upload(bytes));
      accesses.push_back(Gpu::reads(data.back(), static_cast<int64_t>(bytes.size())));
    }
    for (const Bytes& bytes : like) {
      data.push_back(gpu.buffer<std::byte>(static_cast<int64_t>(bytes.size())));
      accesses.push_back(Gpu::writes(data.back(), static_cast<int64_t>(bytes.size())));
    }
    std::vector<const void*> arguments;
    for (std::byte*& address : data) arguments.push_back(static_cast<const void*>(&address));
    arguments.push_back(&outer);
    arguments.push_back(&inner);
    const auto module = gpu.driver.compile({"chain.cu", chain_source(program, width)}).take();
    const auto kernel = gpu.driver.kernel(module, cuda::kChainKernel).take();
    EXPECT_TRUE(gpu.driver
                    .launch(gpu.at("chain"), {.kernel = kernel,
                                              .grid = {2},
                                              .block = {32},
                                              .arguments = arguments,
                                              .accesses = accesses})
                    .ok());
    std::vector<Bytes> results;
    for (size_t o = 0; o < like.size(); ++o)
      results.push_back(
          gpu.download(data[inputs.size() + o], static_cast<int64_t>(like[o].size())));
    EXPECT_EQ(machine.report_text(), "");
    return results;
  }

  const uint64_t seed_ = tests::test_seed() + std::get<2>(GetParam());
  Rng rng_{seed_, 9};
};

TEST_P(Chains, OneElementAtATimeAndInStripsHaveTheBitsOfTheCpu) {
  const auto [x, row, seed] = GetParam();
  const FusedProgram program = program_of(x, row);
  const int64_t width = chain_width(program);
  EXPECT_EQ(width, 8);  // The bools allow eight.
  check(program, 3, 17, 1);
  check(program, 3, 3 * width, width);
  check(program, 1, width, width);
  check(program, 70, width, width);
}

TEST_P(Chains, RoundAfterEachInstructionAsTheCpuDoes) {
  const FusedProgram program = rounding_program(std::get<0>(GetParam()));
  check(program, 3, 17, 1);
  for (int64_t width = 2; width <= chain_width(program); width *= 2) check(program, 5, 24, width);
}

INSTANTIATE_TEST_SUITE_P(Types, Chains,
                         ::testing::Values(std::tuple{DType::kF32, DType::kF32, 0},
                                           std::tuple{DType::kF64, DType::kF64, 1},
                                           std::tuple{DType::kBF16, DType::kBF16, 2},
                                           std::tuple{DType::kBF16, DType::kF32, 3}));

// Computes y = -x of x[3, 16], whose elements lie at strides in a larger tensor.
struct Reads {
  ChainRead read;
  std::vector<int64_t> strides;  // Strides in elements.
};
void expect_read(const Reads& how, int64_t width, bool small) {
  constexpr int64_t kRows = 3, kColumns = 16;
  EmulatedMachine machine({.seed = 4});
  Gpu gpu(machine);
  std::vector<float> x(400), want;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  cuda::RowView<2> view{.sizes = {kRows, kColumns / width},
                        .strides = {how.strides[0], how.strides[1] * width}};
  for (size_t d = 0; d < 2; ++d) {
    const cuda::Divisor by = cuda::divisor_of(view.sizes[d]);
    view.multipliers[d] = by.multiplier;
    view.shifts[d] = by.shift;
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c)
      want.push_back(-static_cast<float>(r * how.strides[0] + c * how.strides[1]));
  }
  const FusedProgram program{.inputs = {{DType::kF32}},
                             .code = {{FusedOp::kNeg, DType::kF32, {0}}},
                             .outputs = {{1, DType::kF32}}};
  float* const from = gpu.upload(x);
  float* const to = gpu.buffer<float>(kRows * kColumns);
  const int64_t outer = 1, inner = kRows * kColumns;
  const auto source = chain_source(program, width, {how.read}, small);
  const auto module = gpu.driver.compile({"chain.cu", source}).take();
  const auto kernel = gpu.driver.kernel(module, cuda::kChainKernel).take();
  const std::vector<cuda::Access> accesses = {Gpu::reads(from, static_cast<int64_t>(x.size())),
                                              Gpu::writes(to, inner)};
  const std::vector<const void*> arguments = {&from, &to, &outer, &inner, &view};
  EXPECT_TRUE(gpu.driver
                  .launch(gpu.at("chain"), {.kernel = kernel,
                                            .grid = {1},
                                            .block = {32},
                                            .arguments = arguments,
                                            .accesses = accesses})
                  .ok());
  EXPECT_EQ(gpu.download(to, kRows * kColumns), want);
  EXPECT_EQ(machine.report_text(), "");
}

TEST(ChainReads, FindEachElementWhereItLies) {
  for (const bool small : {true, false}) {
    for (const int64_t width : {1, 4}) {
      SCOPED_TRACE(cat(small ? "small, by " : "large, by ", width));
      expect_read({{ChainRead::kStrips, 2}, {40, 1}}, width, small);
      expect_read({{ChainRead::kElements, 2}, {41, 1}}, width, small);
      expect_read({{ChainRead::kElements, 2}, {1, 3}}, width, small);
      expect_read({{ChainRead::kOnce, 2}, {5, 0}}, width, small);
    }
  }
}

TEST(ChainReads, AreStripsWhereTheseBeginAtWholeStrips) {
  const auto kind = [](std::vector<int64_t> strides, int64_t begin, int64_t width) {
    cuda::StridedView view{.rank = static_cast<int32_t>(strides.size())};
    std::ranges::copy(strides, view.source);
    const ChainRead read = cuda::read_by(view, DType::kBF16, begin, width);
    EXPECT_EQ(read.rank, view.rank);
    return read.kind;
  };
  EXPECT_EQ(kind({}, 0, 8), ChainRead::kDense);
  EXPECT_EQ(kind({64, 24, 1}, 48, 8), ChainRead::kStrips);
  EXPECT_EQ(kind({64, 24, 1}, 40, 8), ChainRead::kElements);
  EXPECT_EQ(kind({64, 24, 1}, 40, 4), ChainRead::kStrips);
  EXPECT_EQ(kind({64, 20, 1}, 48, 8), ChainRead::kElements);
  EXPECT_EQ(kind({64, 24, 2}, 48, 8), ChainRead::kElements);
  EXPECT_EQ(kind({7, 0}, 2, 8), ChainRead::kOnce);
}

TEST(ChainReads, QuotientsAreThoseOfADivision) {
  constexpr int64_t kLast = cuda::kDividedMax - 1;
  Rng rng(tests::test_seed(), 31);
  const auto check = [](int64_t x, int64_t d) {
    const cuda::Divisor by = cuda::divisor_of(d);
    ASSERT_EQ(cuda::divide(static_cast<uint32_t>(x), by.multiplier, by.shift), x / d)
        << x << " / " << d;
  };
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = [&] { return static_cast<int64_t>(rng.below(uint64_t{1} << rng.below(32))); };
    const int64_t d = 1 + std::min(bits(), kLast - 1), x = std::min(bits(), kLast);
    const int64_t multiple = kLast / d * d;
    for (const int64_t each :
         {x, x / d * d, std::max<int64_t>(0, x / d * d - 1), multiple, multiple - 1, kLast})
      check(each, d);
  }
}

TEST(ChainWidth, FillsSixteenBytesOfTheSmallestTypeThatLiesAlong) {
  FusedProgram program{.inputs = {{DType::kF32, FusedInput::kFull}},
                       .code = {{FusedOp::kNeg, DType::kF32, {0}}},
                       .outputs = {{1, DType::kF32}}};
  EXPECT_EQ(chain_width(program), 4);
  program.inputs.push_back({DType::kBF16, FusedInput::kScalar});
  EXPECT_EQ(chain_width(program), 4);
  program.inputs.push_back({DType::kBF16, FusedInput::kInner});
  EXPECT_EQ(chain_width(program), 8);
}

}  // namespace
}  // namespace gangway::emulated
