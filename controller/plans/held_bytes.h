// Memory of this process that programs and plans take, roughly: for bounds, and for caches that
// hold a number of bytes. A body that several nodes or functions share counts once in each call.
//
// Threads: pure functions. Cost: O(nodes).
#pragma once

#include <cstddef>
#include <set>

#include "ir/graph/program.h"
#include "ir/plan/plan.h"

namespace gangway {

// `seen`: functions that were counted already.
size_t held_bytes(const Function& function, std::set<const Function*>& seen);
size_t held_bytes(const Program& program);
size_t held_bytes(const Plan& plan);

}  // namespace gangway
