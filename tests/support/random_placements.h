// Random meshes, and random annotations over them: which axes cut which dimensions in which order,
// which axes are named as replicated, and which are left open.
//
// Threads: pure functions of the generator they are given.
#pragma once

#include <random>
#include <vector>

#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway::tests {

// One to three axes "a", "b" and "c" of 1 to 4 devices, at most 12 devices in all.
Mesh random_mesh(std::mt19937_64& random);

// kEqual: equal parts, which parameters and results need. kAny: parts may also be padded or empty,
// as annotations allow.
enum class Parts { kEqual, kAny };
AxisPlacements random_placements(std::mt19937_64& random, const Mesh& mesh, const Type& type,
                                 Parts parts);

// `count` numbers from 0 to 2.
std::vector<int> random_priorities(std::mt19937_64& random, size_t count);

}  // namespace gangway::tests
