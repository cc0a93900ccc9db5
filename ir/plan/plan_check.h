// The rules and limits of plans, checked by every reader before anyone else sees one.
//
// What the controller lowers keeps them by construction; an executor trusts no bytes. Functions
// inside are verified by their own reader (ir/wire/wire.h); here: every index, count and type that
// ties the parts together, that no node reads a value before a lower ticket has written it, and
// what tickets rely on: a send comes before its one receive, a commit behind the gate and its call.
//
// Threads: pure.
// Errors: throws kInvalid naming the first broken rule; kUnimplemented, with the user's line, for
// what the format has and this version can't run: firing rules, late nodes, control.
// Cost: O(nodes + values).
#pragma once

#include <optional>

#include "ir/plan/plan.h"

namespace gangway {

inline constexpr int64_t kRunsInFlightMax = 64;
inline constexpr int64_t kPlanDevicesMax = 1 << 20;         // Of one slice.
inline constexpr uint32_t kRanksPerDeviceMax = 64;          // Of one slice.
inline constexpr uint32_t kPositionsMax = 1 << 22;          // Of one slice.
inline constexpr int64_t kSectionNsMax = int64_t{1} << 40;  // 18 minutes.

void require_valid(const Plan& plan);
// And that host number `self` of the plan, with so many devices, can run it.
void require_valid_on(const Plan& plan, uint32_t self, uint32_t devices);

// What of a value lies on each device; none where its slice, its type or its cuts are wrong.
std::optional<Type> local_type_of(const PlanValue& value, const std::vector<PlanSlice>& slices);

}  // namespace gangway
