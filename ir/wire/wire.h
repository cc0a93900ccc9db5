// The Cap'n Proto wire form (graph.capnp), with a version; its inverse; and the content hash.
//
// Threads: pure functions.
// Errors: from_wire throws kInvalid on anything malformed, and verifies what it returns: any bytes
// give a graph or an error, never a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/program.h"
#include "runtime/base/hash.h"

namespace gangway {

// A graph is written as the lowest version that can say it: 2 has cut orders and reductions of
// placements, which most graphs leave at their defaults, and bodies that nodes share; 3 has states
// of stacked layers; 4 has programs that choose their numerics.
inline constexpr uint32_t kWireVersionMin = 1;
inline constexpr uint32_t kWireVersionMax = 4;

std::vector<std::byte> to_wire(const Function& function);
std::vector<std::byte> to_wire(const Program& program);
Function function_from_wire(std::span<const std::byte> bytes);
Program program_from_wire(std::span<const std::byte> bytes);

// A hash of the function alone: locations and origins do not count. Equal across processes and
// versions of equal wire version.
Hash128 content_hash(const Function& function);
// The same without the names and meshes of the function and of the bodies in it: for functions that
// give the same values under any name and on any mesh, as initialisers of states do.
Hash128 values_hash(const Function& function);
// A hash of the parts that content_hash() leaves out: the user's lines that nodes came from. Two
// functions with equal hashes of both kinds give the same errors.
Hash128 location_hash(const Function& function);

}  // namespace gangway
