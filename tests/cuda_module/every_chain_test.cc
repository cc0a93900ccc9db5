// Every chain compiles for cards: every element-wise op, in every type for which the CPU's
// interpreter has it, one element at a time and in strips.
#include <gtest/gtest.h>

#include "executor/devices/cuda/lower/chain_source.h"
#include "executor/devices/cuda/module/nvrtc.h"
#include "executor/kernels/fused.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr FusedOp kLast = FusedOp::kSelect;

bool is_valid(const FusedProgram& program) {
  try {
    const Fused checked(program);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool gives_bool(FusedOp op) {
  return op == FusedOp::kIsFinite || op == FusedOp::kNot ||
         (op >= FusedOp::kEq && op <= FusedOp::kOr);
}

// All ops that take `dtype`, each with an output of its own.
FusedProgram every_op(DType dtype, int64_t* ops) {
  FusedProgram all{.inputs = {{dtype, FusedInput::kFull},
                              {dtype, FusedInput::kInner},
                              {dtype, FusedInput::kOuter},
                              {DType::kBool, FusedInput::kScalar}}};
  const auto add = [&](const FusedInstruction& code) {
    FusedProgram one = all;
    one.code = {code};
    one.outputs = {{4, code.dtype}};
    if (!is_valid(one)) return;
    ++*ops;
    all.code.push_back(code);
    all.outputs.push_back({static_cast<int32_t>(all.code.size()) + 3, code.dtype});
  };
  for (int op = 0; op <= static_cast<int>(kLast); ++op) {
    const auto fused = static_cast<FusedOp>(op);
    if (fused == FusedOp::kConvert) {
      for (int to = 0; to < kDTypeCount; ++to) add({fused, static_cast<DType>(to), {0}});
    } else if (fused == FusedOp::kSelect) {
      add({fused, dtype, {3, 0, 1}});
    } else {
      add({fused, gives_bool(fused) ? DType::kBool : dtype, {0, 1}, 0.5});
    }
  }
  return all;
}

class EveryChain : public testing::TestWithParam<DType> {};

TEST_P(EveryChain, CompilesForEveryArchitecture) {
  int64_t ops = 0;
  const FusedProgram program = every_op(GetParam(), &ops);
  const bool is_float_type = is_float(GetParam());
  EXPECT_GE(ops, is_float_type ? 30 : 8);
  const auto compile = [&](uint32_t architecture, int64_t width) {
    const auto made = compile_cubin({"chain.cu", chain_source(program, width)}, architecture, {});
    EXPECT_TRUE(made.ok()) << architecture << ": " << made.error().message();
  };
  for (uint32_t architecture : {80, 90, 100}) compile(architecture, 1);
  compile(90, 2);  // A strip; longer ones only take longer to compile.
}

// The chain takes the largest of four operands, which are read in four ways.
TEST_P(EveryChain, CompilesHoweverItsOperandsLie) {
  const DType dtype = GetParam();
  const FusedOp op = dtype == DType::kBool ? FusedOp::kOr : FusedOp::kMax;
  const FusedProgram program{
      .inputs = std::vector<FusedInput>(4, {dtype}),
      .code = {{op, dtype, {0, 1}}, {op, dtype, {2, 3}}, {op, dtype, {4, 5}}},
      .outputs = {{6, dtype}}};
  ASSERT_TRUE(is_valid(program));
  const std::vector<ChainRead> reads = {
      {}, {ChainRead::kStrips, 3}, {ChainRead::kElements, 2}, {ChainRead::kOnce, 4}};
  for (const int64_t width : {int64_t{1}, chain_width(program)}) {
    const bool small = width > 1;
    const auto made =
        compile_cubin({"chain.cu", chain_source(program, width, reads, small)}, 90, {});
    EXPECT_TRUE(made.ok()) << width << ": " << made.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, EveryChain,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF64, DType::kI32,
                                         DType::kBool),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway::cuda
