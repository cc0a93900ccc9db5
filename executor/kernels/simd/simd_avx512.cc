// The avx512 path of every kernel: see simd.h.
// g++ 12 takes its own header's deliberately undefined operands for a mistake, once inlined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <utility>

#include "executor/kernels/simd/fused_plan.h"
#include "executor/kernels/simd/simd.h"

namespace gangway::simd {
namespace {
#include "executor/kernels/simd/vec_avx512.inl"

#include "executor/kernels/simd/bodies.inl"
}  // namespace

const Table kTableAvx512 = kTable;

}  // namespace gangway::simd
