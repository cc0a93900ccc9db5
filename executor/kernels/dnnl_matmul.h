// One oneDNN matmul primitive of f32 or bf16, and what every call of oneDNN here needs: one thread,
// the caller's scratch, no exception on a device thread.
//
// Every size is fixed: so oneDNN takes its block kernels, which are the fastest.
//
// Behind matmul.cc; not for other rooms.
// Threads: run() is const and may be called from several threads, each with its own scratch.
// Cost: about 1.5 us a call plus the arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ir/types/dtype.h"

namespace gangway {

struct DnnlMatmulDesc {
  DType in = DType::kF32, out = DType::kF32;
  int64_t m = 0, n = 0, k = 0;
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
  void run(const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace gangway
