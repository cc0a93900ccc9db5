// Cuts literals over a mesh and puts them together again, so that tests can run the local form of a
// global function.
//
// Threads: pure functions.
// Errors: asserts that devices that hold one part agree in it.
#pragma once

#include <vector>

#include "ir/transforms/pipeline.h"
#include "tests/interpret/literal.h"

namespace gangway::numerics {

// [device][value]: the parts of `whole` that each device of the mesh holds under `shardings`.
std::vector<std::vector<Literal>> cut(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                      const std::vector<Literal>& whole);

// The inverse of cut(). All devices that hold the same part must hold the same bits.
std::vector<Literal> put_together(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                  const std::vector<std::vector<Literal>>& parts);

// Runs a compiled function on all devices of its mesh. Arguments and results are whole.
std::vector<Literal> interpret_compiled(const Compiled& compiled,
                                        const std::vector<Literal>& arguments);

// |a - b| / |b| over all elements of all literals taken as one vector; infinite when a value is not
// finite in one and differs from the other's.
double relative_difference(const std::vector<Literal>& a, const std::vector<Literal>& b);

}  // namespace gangway::numerics
