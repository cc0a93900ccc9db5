// A literal: a tensor's type and its values, held as doubles whatever the element type.
//
// For the reference executor and its tests; data of programs never takes this form. i32 and bool
// are exact; bytes are the element type's own, little-endian, row-major.
// Threads: a value.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/types/number.h"
#include "ir/types/type.h"

namespace gangway {

struct Literal {
  Type type;
  std::vector<double> values;  // type.elements(), row-major.

  friend bool operator==(const Literal&, const Literal&) = default;
};

Literal filled(Type type, double value);

void round_values(Literal& literal);

// kInvalid when the number of bytes is not the type's.
Literal from_bytes(Type type, std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const Literal& literal);

// Part `index` of `parts` equal ones along a dimension, and the inverse.
Literal part_of(const Literal& whole, int dim, int64_t parts, int64_t index);
Literal join(const std::vector<Literal>& parts, int dim);

}  // namespace gangway
