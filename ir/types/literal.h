// A literal: a tensor's type and its values, held as doubles whatever the element type.
//
// For the reference executor and its tests; data of programs never takes this form. i32 and bool
// are exact; bytes are the element type's own, little-endian, row-major.
// Threads: a value.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

struct Literal {
  Type type;
  std::vector<double> values;  // type.elements(), row-major.

  friend bool operator==(const Literal&, const Literal&) = default;
};

Literal filled(Type type, double value);

// The nearest value of the element type, ties to even; bf16 by way of f32, as devices compute.
// To i32: truncated, saturated, NaN is 0. To bool: 1 unless 0.
double rounded(DType dtype, double value);
void round_values(Literal& literal);
// Why the type cannot represent the number, as in `i32 * 0.5`; nullopt if it can, or if it rounds
// the number to a neighbour. The text continues the name of what holds the number: "can't be 0.5:
// expected ...". Infinity and NaN are numbers of the float types.
std::optional<std::string> number_mistake(DType dtype, double value);

// kInvalid when the number of bytes is not the type's.
Literal from_bytes(Type type, std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const Literal& literal);

// Part `index` of `parts` equal ones along a dimension, and the inverse.
Literal part_of(const Literal& whole, int dim, int64_t parts, int64_t index);
Literal join(const std::vector<Literal>& parts, int dim);

}  // namespace gangway
