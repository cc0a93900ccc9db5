// Turns values of a traced function into parameters behind those that it has.
//
// A program declares state where it is needed (an optimizer's moments, after the gradients), but
// the parameters of a function come first. The program builder traces a late one as a placeholder
// constant and hoists all of them at the end.
//
// Threads: pure function.
#pragma once

#include <utility>
#include <vector>

#include "ir/function.h"

namespace gangway {

// Each value is the only result of a node without operands; the node goes, its users stay.
void hoist_parameters(Function& function, const std::vector<std::pair<ValueId, Parameter>>& late);

}  // namespace gangway
