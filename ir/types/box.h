// Box: a part of a tensor, given by its first row and its number of rows in each dimension.
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
// Whether the box is a part of a tensor of these sizes; the box's own numbers may be anything.
bool lies_in(const Box& box, const Dims& dims);
std::string to_string(const Box& box);  // "[0:4, 8:16]"

// Cuts a tensor into boxes of at most `bytes_max` bytes, or of one element each. Each box is a run
// of the tensor's elements in row-major order that begins where the one before it ends, so callers
// can read, write or store a tensor without holding all of it.
std::vector<Box> pieces_of(const Type& type, int64_t bytes_max);

}  // namespace gangway
