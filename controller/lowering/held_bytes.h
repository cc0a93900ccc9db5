// What programs and plans take of this process's memory, about: for bounds, and for caches that
// hold so many bytes. Bodies that several nodes or functions share count once in each call.
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
