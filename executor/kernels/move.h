// Moving data without arithmetic: one strided copy, and the few shapes of it that have a name.
//
// transpose, slice, pad, concat, broadcast, dynamic_slice and dynamic_update are all a StridedCopy
// between two strided views, after a fill for pad: they differ in strides and offsets only.
// Adjacent dimensions that are contiguous together are joined first; a transpose of the two fastest
// dimensions runs in cache-sized blocks.
//
// Sizes and strides count elements; a source stride of 0 broadcasts; destination strides never
// overlap.
// Threads: any. Source and destination must not overlap. Nothing throws.
//
// Example (transposes f32[64, 32] to f32[32, 64]):
//   StridedCopy transpose{.bytes = 4, .sizes = {32, 64}, .src_strides = {1, 32},
//                         .dst_strides = {64, 1}};
//   strided_copy(par, transpose, x, y);
#pragma once

#include <cstdint>
#include <vector>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

struct StridedCopy {
  int64_t bytes = 4;  // Size of one element: 1, 2, 4 or 8.
  std::vector<int64_t> sizes;
  std::vector<int64_t> src_strides, dst_strides;
};
void strided_copy(Parallel& par, const StridedCopy& copy, const void* src, void* dst);

// The strides of a dense row-major tensor.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);

// x[sizes] -> y with y's dimension i being x's dimension permutation[i].
StridedCopy permute_copy(int64_t bytes, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& permutation);

void fill(Parallel& par, DType dtype, double value, void* y, int64_t n);

// y[outer, axis, inner] = index along axis, in any dtype (bf16 rounds above 256).
void iota(Parallel& par, DType dtype, int64_t outer, int64_t axis, int64_t inner, void* y);

// Element-wise change of dtype, by the rules of fused.h. Bytes are copied where the dtypes are
// equal.
void convert(Parallel& par, DType from, DType to, const void* x, void* y, int64_t n);

// out[n, dim] = table[index[n], dim]; an index outside [0, rows) reads zeros.
struct RowsShape {
  int64_t rows = 0, dim = 0, n = 0;
};
void gather_rows(Parallel& par, int64_t element_bytes, const RowsShape& shape, const void* table,
                 const int32_t* index, void* out);

// out[rows, dim] = sum over i of updates[i, dim] where index[i] is the row, in the order of i
// (accumulated in f32 for bf16, hence scratch); rows without an update are 0; an index outside adds
// to nothing. f32, bf16, f64, i32.
size_t scatter_add_scratch_bytes(DType dtype, const RowsShape& shape);
void scatter_add_rows(Parallel& par, DType dtype, const RowsShape& shape, const int32_t* index,
                      const void* updates, void* out, void* scratch);

}  // namespace gangway
