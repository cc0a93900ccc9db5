// Literals cut over a mesh and put together again: what stands between a global function and its
// local form in the tests.
//
// Threads: pure functions.
// Errors: asserts that devices that hold one part agree in it.
#pragma once

#include <vector>

#include "ir/transforms/pipeline.h"
#include "ir/types/literal.h"

namespace gangway::numerics {

// [device][value]: what each device of the mesh holds of `whole`, sharded as `shardings` say.
std::vector<std::vector<Literal>> cut(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                      const std::vector<Literal>& whole);

// The inverse, of local types; every device that holds a part must hold the same bits.
std::vector<Literal> put_together(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                  const std::vector<std::vector<Literal>>& parts);

// A compiled function on all devices of its mesh, from and to the global view.
std::vector<Literal> interpret_compiled(const Compiled& compiled,
                                        const std::vector<Literal>& arguments);

// |a - b| / |b| over all elements of all literals taken as one vector; infinite when a value is not
// finite in one and differs from the other's.
double relative_difference(const std::vector<Literal>& a, const std::vector<Literal>& b);

}  // namespace gangway::numerics
