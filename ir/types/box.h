// Box: a part of a tensor, so many rows of each dimension from some row on.
//
// Threads: a value; safe anywhere.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

struct Box {
  Dims begin;
  Dims size;
  friend auto operator<=>(const Box&, const Box&) = default;
};

Box whole_box(const Dims& dims);
// Whether it is a part of a tensor of these sizes; whatever its own numbers are.
bool lies_in(const Box& box, const Dims& dims);
std::string to_string(const Box& box);  // "[0:4, 8:16]"

// A tensor in boxes of at most so many bytes, or of one element: each is a run of its elements in
// row-major order, and begins where the one before it ends. So a tensor is read, written or stored
// without ever being held whole.
std::vector<Box> pieces_of(const Type& type, int64_t bytes_max);

}  // namespace gangway
