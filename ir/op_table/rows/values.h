// Values: what gradients and decompositions of the rows give.
#pragma once

#include <vector>

#include "ir/build/value.h"

namespace gangway::internal {

using Values = std::vector<Value>;

}  // namespace gangway::internal
