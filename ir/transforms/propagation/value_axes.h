// ValueAxes: a set of pairs of a value and a mesh axis, for example of those that only the user
// places.
//
// Threads: a value.
// Cost: one bit for each pair.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

class ValueAxes {
 public:
  ValueAxes(size_t values, size_t axes) : axes_(axes), contains_(values * axes, false) {}
  bool contains(ValueId value, int axis) const { return contains_[at(value, axis)]; }
  void insert(ValueId value, int axis) { contains_[at(value, axis)] = true; }

 private:
  size_t at(ValueId value, int axis) const { return value * axes_ + static_cast<size_t>(axis); }

  size_t axes_;
  std::vector<bool> contains_;
};

}  // namespace gangway
