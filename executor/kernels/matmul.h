// Matrix product: c[batch, m, n] = op(a)[batch, m, k] x op(b)[batch, k, n], or added to c.
//
// f32 and bf16 go through oneDNN in blocks of rows whose size follows from the shape alone, so that
// bits do not depend on the number of threads; f64 (which oneDNN lacks) runs in loops of our own.
// bf16 on a machine without bf16 arithmetic is widened to f32 in scratch.
//
// Types (a, b -> c): f32, f32 -> f32; bf16, bf16 -> bf16 or f32 (accumulated in f32);
// f64, f64 -> f64.
// Shapes: op(a) is a[m, k], or a[k, m] when transpose_a; op(b) is b[k, n], or b[n, k] when
// transpose_b. Leading dimensions and batch strides count elements; 0 means dense; a batch stride
// of kSameMatrix reuses one matrix.
//
// Threads: run() may be called from several devices at once.
// Ownership: nothing is kept of the pointers.
// Errors: the constructor throws kInvalid for types or sizes it cannot do; run() cannot fail.
// Cost: construction 100 us to 2 ms (once per plan); run() about 2 us plus the arithmetic.
//
// Example:
//   Matmul dot({.a = DType::kF32, .b = DType::kF32, .c = DType::kF32,
//               .m = 4096, .n = 1024, .k = 256});
//   std::vector<std::byte> scratch(dot.scratch_bytes(par.threads()));
//   dot.run(par, x, w, y, scratch.data());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

inline constexpr int64_t kSameMatrix = -1;

struct MatmulDesc {
  DType a = DType::kF32, b = DType::kF32, c = DType::kF32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch_stride_a = 0, batch_stride_b = 0, batch_stride_c = 0;
  bool accumulate = false;  // c += instead of c =
  bool allow_tf32 = false;  // On cards f32 operands may be rounded to TF32.
};

class Matmul {
 public:
  explicit Matmul(const MatmulDesc& desc, KernelIsa isa = detect_isa());
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  // Bytes of scratch that run() needs with this many threads; 64-byte aligned.
  size_t scratch_bytes(int threads) const;
  void run(Parallel& par, const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace gangway
