// Random valid graphs, for properties that hold of every graph.
//
// Threads: one generator, one thread. The graphs that a generator gives depend on its seed alone.
#pragma once

#include <cstdint>
#include <random>

#include "ir/graph/program.h"

namespace gangway::tests {

using Random = std::mt19937_64;

// Traces a few dozen nodes of most families, with scopes, regions, fusions, shardings, and names
// that need quoting.
Function random_function(Random& random, const Mesh& mesh);
Program random_program(Random& random);

// Makes one change that gives a different graph, valid or not: to a name, an attribute, an operand,
// a region or a type.
void change(Function& function, Random& random);
// Changes only locations, scopes and origins, which are no part of the graph.
void change_side_tables(Function& function, Random& random);

}  // namespace gangway::tests
