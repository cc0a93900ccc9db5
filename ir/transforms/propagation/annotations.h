// The user's annotations of shardings: the placements of parameters, `constrain` nodes and results,
// each axis for itself, with its priority.
//
// Threads: pure functions.
// Errors: kInvalid where two annotations of one value disagree, naming both places.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "ir/types/limits.h"

namespace gangway {

struct Annotation {
  ValueId value = kNone;
  NodeId node = kNone;  // The `constrain` that holds it; kNone: a parameter or a result.
  int axis = 0;
  Placement placement;
  int priority = 0;
};

// Results count after everything else that the user said.
inline constexpr int kResultPriority = kAnnotationPriorityMax + 1;

// Ascending by priority; axes of size 1 are left out. For parameters and results only cuts are
// listed (axes that they do not name replicate), for a `constrain` also the axes that it
// replicates. `result_shardings` is indexed by result, with an empty one for a result that may stay
// as it comes; or it is empty.
std::vector<Annotation> annotations_of(const Function& global,
                                       const std::vector<Sharding>& parameter_shardings,
                                       const std::vector<Sharding>& result_shardings);

}  // namespace gangway
