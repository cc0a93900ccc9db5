// One oneDNN matmul primitive of f32 or bf16, and what every call of oneDNN here needs: one thread,
// the caller's scratch, no exception on a device thread.
//
// Either every size is fixed (oneDNN's block kernels: the fastest), or the number of rows or the
// depth is given to each call (kRunTime: 5 to 15 % slower, one primitive for every size).
//
// Behind matmul.cc; not for other rooms.
// Threads: run() is const and may be called from several threads, each with its own scratch.
// Cost: about 1.5 us a call plus the arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/kernels/isa.h"
#include "ir/types/dtype.h"

namespace gangway {

inline constexpr int64_t kRunTime = -1;

struct DnnlMatmulDesc {
  DType in = DType::kF32, out = DType::kF32;
  int64_t m = 0, n = 0, k = 0;  // m or k may be kRunTime.
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;
};

class DnnlMatmul {
 public:
  explicit DnnlMatmul(const DnnlMatmulDesc& desc);
  ~DnnlMatmul();
  DnnlMatmul(DnnlMatmul&&) noexcept;
  DnnlMatmul& operator=(DnnlMatmul&&) noexcept;

  size_t scratch_bytes() const;
  // `extent` is the size that is kRunTime; without one it is ignored. It must be positive.
  void run(int64_t extent, const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace gangway
