// Elements of a file's float tensor as those of another float type.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/safetensors.h"

namespace gangway::programs {

bool is_convertible_float(FileDType dtype);  // F16, BF16, F32, F64.

// To nearest, ties to even; what is too large becomes infinite. The same number of elements in
// both; equal types, of any kind, are copied.
void convert_floats(FileDType from, std::span<const std::byte> bytes, DType to,
                    std::span<std::byte> values);

}  // namespace gangway::programs
