// A function as DOT: boxes for its nodes inside clusters for the user's scopes, folded where there
// is more than a picture can show.
//
// Left out: constants, whose values the text form has. Folded: parameters and results by their
// names, and scopes, from the innermost ones on, until few enough boxes remain; a function of too
// many nodes without scopes is one box.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string>

#include "ir/graph/function.h"

namespace gangway::internal {

// Up to this many parameters, results or states have a box each.
inline constexpr size_t kDotNamesMax = 8;
// Boxes of a function's nodes and scopes.
inline constexpr size_t kDotBoxesMax = 80;

// Appends it; `prefix` begins its boxes' names, and keeps those of several functions apart.
void write_function_dot(const Function& function, const std::string& prefix, std::string& out);

// "2.1 GFLOP, 3.0 MiB" of nodes; a scope that is folded says it.
std::string dot_cost(const Cost& cost);

}  // namespace gangway::internal
