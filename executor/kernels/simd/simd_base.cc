// The base path of every kernel: see simd.h.
#include <immintrin.h>

#include <utility>

#include "executor/kernels/simd/fused_plan.h"
#include "executor/kernels/simd/simd.h"

namespace gangway::simd {
namespace {
#include "executor/kernels/simd/vec_base.inl"

#include "executor/kernels/simd/bodies.inl"
}  // namespace

const Table kTableBase = kTable;

}  // namespace gangway::simd
