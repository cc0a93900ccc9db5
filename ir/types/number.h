// Numbers of an element type, given as doubles.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ir/types/dtype.h"

namespace gangway {

// The nearest value of the element type, ties to even; bf16 by way of f32, as devices compute.
// To i32: truncated, saturated, NaN is 0. To bool: 1 unless 0.
double rounded(DType dtype, double value);
// Writes the nearest value as size_of(dtype) bytes, little-endian.
void store_number(DType dtype, double value, std::byte* to);
// Reads size_of(dtype) bytes, little-endian.
double load_number(DType dtype, const std::byte* from);
// Why the type cannot represent the number, as in `i32 * 0.5`; nullopt if it can, or if it rounds
// the number to a neighbour. The text continues the name of what holds the number: "can't be 0.5:
// expected ...". Infinity and NaN are numbers of the float types.
std::optional<std::string> number_mistake(DType dtype, double value);

}  // namespace gangway
