// Several rows share this: the values that their gradients and decompositions give, and their
// dimensions as indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/build/value.h"

namespace gangway::internal {

using Values = std::vector<Value>;

inline size_t at(int64_t dim) { return static_cast<size_t>(dim); }

}  // namespace gangway::internal
