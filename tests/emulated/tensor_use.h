// TensorUse: the rows of one tensor that a library operation touches. They may lie apart.
#pragma once

#include <cstdint>

#include "executor/devices/cuda/driver/calls.h"

namespace gangway::emulated {

struct TensorUse {
  cuda::AccessKind kind = cuda::AccessKind::kRead;
  int64_t matrices = 1, matrix_stride = 0;  // Strides are in bytes.
  int64_t rows = 1, row_stride = 0, row_bytes = 0;
  bool must_be_initialised = true;

  static TensorUse dense(cuda::AccessKind kind, int64_t bytes) {
    return {.kind = kind, .row_bytes = bytes};
  }
  int64_t bytes() const {
    const bool none = matrices == 0 || rows == 0 || row_bytes == 0;
    return none ? 0 : (matrices - 1) * matrix_stride + (rows - 1) * row_stride + row_bytes;
  }
  template <class Body>  // Calls body(offset) for each row.
  void for_each_row(const Body& body) const {
    for (int64_t m = 0; m < matrices; ++m) {
      for (int64_t r = 0; r < rows; ++r) body(m * matrix_stride + r * row_stride);
    }
  }
};

}  // namespace gangway::emulated
