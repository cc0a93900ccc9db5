// Shape ops as strided copies (executor/kernels/move.h).
//
// Threads: pure.
#pragma once

#include <vector>

#include "executor/kernels/move.h"
#include "ir/types/type.h"

namespace gangway {

// Dimension i of x[from] becomes dimension map[i] of the result; sizes of 1 stretch.
StridedCopy broadcast_copy(const Type& from, const Type& to, const std::vector<int64_t>& map);

// The window of x that begins at its offset, with `steps` (none: 1), dense in y.
StridedCopy read_window(const Type& x, const Type& y, const std::vector<int64_t>& steps);
// x, dense, into a window of y.
StridedCopy write_window(const Type& x, const Type& y);
// A copy of a window: sizes of the window, strides of two tensors, and the byte offset where it
// begins in `inside`.
int64_t window_offset_bytes(const Type& inside, const std::vector<int64_t>& starts);

}  // namespace gangway
