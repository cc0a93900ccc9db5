// The avx2 path of every kernel: see simd.h.
#include <immintrin.h>

#include <utility>

#include "executor/kernels/simd/fused_plan.h"
#include "executor/kernels/simd/simd.h"

namespace gangway::simd {
namespace {
#include "executor/kernels/simd/vec_avx2.inl"

#include "executor/kernels/simd/bodies.inl"
}  // namespace

const Table kTableAvx2 = kTable;

}  // namespace gangway::simd
