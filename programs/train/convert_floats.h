// Converts elements of a file's float tensor to another float type.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/safetensors.h"

namespace gangway::programs {

bool is_convertible_float(FileDType dtype);  // F16, BF16, F32, F64.

// Rounds to nearest, ties to even; a value that is too large becomes infinite. Both spans have the
// same number of elements. Equal types, of any kind, are copied.
void convert_floats(FileDType from, std::span<const std::byte> bytes, DType to,
                    std::span<std::byte> values);

}  // namespace gangway::programs
