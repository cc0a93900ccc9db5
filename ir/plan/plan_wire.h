// Plans to bytes and back (plan.capnp).
//
// Threads: pure functions.
// Errors: plan_from_wire() throws kInvalid on anything malformed or of another version, and checks
// what it returns (plan_check.h): any bytes give a plan or an error, never a crash.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

// A plan of 10,000 hosts and as many nodes is about a megabyte without its functions.
inline constexpr size_t kPlanBytesMax = size_t{256} << 20;

std::vector<std::byte> to_wire(const Plan& plan);
Plan plan_from_wire(std::span<const std::byte> bytes);

}  // namespace gangway
