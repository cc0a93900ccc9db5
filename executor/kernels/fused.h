// Chains of element-wise ops run as one: an interpreter over chunks that stay in the first-level
// cache.
//
// A chain of n ops then reads its inputs and writes its outputs once, and one kernel serves every
// chain: nothing is compiled at run time. The CUDA device builds its fused kernels from the same
// program.
//
// A program is SSA: values are numbered, first the inputs, then one for each instruction in order.
// The iteration space is [outer, inner], row-major; an input is one of
//
//   kFull    t[outer, inner]      kScalar  t[]
//   kInner   t[inner]             kOuter   t[outer]
//
// Without kInner and kOuter inputs use outer = 1.
//
// Arithmetic: f32 and bf16 values are computed in f32; an instruction of type bf16 rounds its
// result (as unfused ops would; give it type f32 to keep the intermediate exact), where the machine
// has an instruction for it with 0 for numbers below the least normal one. f64 and i32 are computed
// as such; i32 wraps, i32 division by zero gives 0. Comparisons take their type from their operands
// and give bool. max and min propagate NaN; sign(NaN) is NaN; a conversion to i32 truncates and
// saturates, NaN gives 0; a conversion to bool is x != 0. Accuracy in f32: exp, log, log1p,
// expm1, tanh, erf, logistic within 4 ulp; the rest is exact or libm's.
//
// Outputs may lie on top of a kFull input of the same element size, never on a broadcast one.
// An element's bits depend on its inputs alone, never on its position, the shape or the number of
// threads. Where full inputs are zeros for the length of a chunk, as in the room behind experts'
// rows, the results of one such chunk can therefore be copied for the others.
//
// Threads: run() is const and may be called from several devices at once.
// Errors: the constructor throws kInvalid.
//
// Example:
//   constexpr DType kF32 = DType::kF32;
//   Fused tanh_of_sum({.inputs = {{kF32, FusedInput::kFull}, {kF32, FusedInput::kInner}},
//                      .code = {{FusedOp::kAdd, kF32, {0, 1}}, {FusedOp::kTanh, kF32, {2}}},
//                      .outputs = {{3, kF32}}});
//   tanh_of_sum.run(par, rows, dim, inputs, outputs);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/kernels/fused_op.h"
#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct FusedInput {
  enum Kind : uint8_t { kFull, kScalar, kInner, kOuter };
  DType dtype = DType::kF32;
  Kind kind = kFull;
};

struct FusedInstruction {
  FusedOp op = FusedOp::kConstant;
  DType dtype = DType::kF32;  // Type of the result.
  std::array<int32_t, 3> in = {0, 0, 0};
  double immediate = 0;
};

struct FusedOutput {
  int32_t value = 0;
  DType dtype = DType::kF32;  // The value's type, or f32 for bf16 and the reverse.
};

struct FusedProgram {
  std::vector<FusedInput> inputs;
  std::vector<FusedInstruction> code;
  std::vector<FusedOutput> outputs;
};

namespace simd {
struct FusedPlan;
}

class Fused {
 public:
  explicit Fused(const FusedProgram& program);
  ~Fused();
  Fused(Fused&&) noexcept;
  Fused& operator=(Fused&&) noexcept;

  void run(Parallel& par, int64_t outer, int64_t inner, std::span<const void* const> inputs,
           std::span<void* const> outputs) const;

 private:
  std::unique_ptr<const simd::FusedPlan> plan_;
};

}  // namespace gangway
