// A conversion as the local function that does it to its parameter.
//
// Threads: a pure function.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/conversions/plan_conversion.h"

namespace gangway::tests {

Function converting_function(const std::string& name, const Type& global, const Mesh& mesh,
                             const Sharding& from, const std::vector<ConversionStep>& steps);

}  // namespace gangway::tests
