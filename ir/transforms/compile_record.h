// What was decided while a function was compiled, for who explains it (ir/explain). Kept only where
// somebody asks, since it is larger than what compiling gives; asked again for the same function
// and context, it is the same.
//
// Threads: a value.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"

namespace gangway {

struct CompileRecord {
  Function function;               // As it was cut: simplified, with the shardings that were found.
  SimplifiedFunctions simplified;  // Where the values of the user's function are in it.
  Propagation propagation;
  std::vector<ConversionRecord> conversions;  // Of values of `function` and of bodies in it.
};

}  // namespace gangway
