// Values that hold infinities by intention: constants, as in masks, and what is computed from them.
// A step whose result is not finite is not blamed for them.
//
// Threads: pure.
#pragma once

#include <vector>

#include "ir/graph/function.h"

namespace gangway {

std::vector<bool> masked_values(const Function& function);  // By ValueId.

}  // namespace gangway
