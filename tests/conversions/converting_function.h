// One conversion, and the local function that does it to its parameter.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/conversions/plan_conversion.h"

namespace gangway::tests {

inline std::vector<ConversionStep> plan_conversion(const Type& global, const Mesh& mesh,
                                                   const Sharding& from, const Sharding& to,
                                                   const ConversionCosts& costs) {
  return ConversionPlanner(mesh, costs).plan(global, from, to).steps;
}

Function converting_function(const std::string& name, const Type& global, const Mesh& mesh,
                             const Sharding& from, const std::vector<ConversionStep>& steps);

}  // namespace gangway::tests
