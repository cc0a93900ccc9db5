// The rules and limits of plans, checked by every reader before anyone else sees one.
//
// Plans that the controller lowers keep them by construction; an executor trusts no bytes. The
// reader of functions verifies the functions inside (ir/wire/wire.h). This check covers every
// index, count and type that ties the parts together, that no node reads a value before a lower
// ticket has written it, and the order that tickets rely on: a send precedes its one receive, a
// commit follows the gate and its call.
//
// Threads: pure.
// Errors: throws kInvalid naming the first broken rule.
// Cost: O(nodes + values).
#pragma once

#include <optional>

#include "ir/plan/plan.h"

namespace gangway {

inline constexpr int64_t kRunsInFlightMax = 64;
inline constexpr int64_t kPlanDevicesMax = 1 << 20;         // Limit of one slice.
inline constexpr uint32_t kRanksPerDeviceMax = 64;          // Limit of one slice.
inline constexpr uint32_t kPositionsMax = 1 << 22;          // Limit of one slice.
inline constexpr int64_t kSectionNsMax = int64_t{1} << 40;  // 18 minutes.

void require_valid(const Plan& plan);
// Also requires that host number `self` of the plan can run it with `devices` devices.
void require_valid_on(const Plan& plan, uint32_t self, uint32_t devices);

// Type of a value's part on each device; nullopt if its slice, its type or its cuts are wrong.
std::optional<Type> local_type_of(const PlanValue& value, const std::vector<PlanSlice>& slices);

}  // namespace gangway
