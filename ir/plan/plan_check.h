// The rules of plans, checked by every reader before anyone else sees one.
//
// What the controller lowers keeps them by construction; an executor trusts no bytes. Functions
// inside are verified by their own reader (ir/wire/wire.h); here: every index, count and type that
// ties the parts together, and that no node reads a value before a lower ticket has written it.
//
// Threads: pure.
// Errors: throws kInvalid naming the first broken rule.
// Cost: O(nodes + values).
#pragma once

#include "ir/plan/plan.h"

namespace gangway {

inline constexpr int64_t kRunsInFlightMax = 64;

void require_valid(const Plan& plan);

}  // namespace gangway
