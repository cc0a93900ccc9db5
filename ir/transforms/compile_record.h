// The decisions of the compiler on one function, from which ir/explain explains them. Kept only on
// request, since the record is larger than the compiled function; compiling the same function in
// the same context again gives the same record.
//
// Threads: a value.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph/function.h"
#include "ir/plan/plan.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "ir/transforms/rewrite/simplify.h"

namespace gangway {

// The function behind a pass (ir/transforms/passes.h).
struct AfterPass {
  std::string_view pass;
  Function function;  // Placed behind `propagate_shardings`, one device's behind `partition`.
  NodeId commit_begin = kNone;  // Known behind `order_commit`.
  std::vector<LocalFunction::Section> sections;
};

struct CompileRecord {
  bool keeps_passes = false;  // Set by the caller: `after` is wanted.
  // The function at partitioning: simplified, with the shardings that were found.
  Function function;
  SimplifiedFunctions simplified;  // The places of the user's values in `function`.
  Propagation propagation;
  // Conversions of values of `function` and of bodies in it.
  std::vector<ConversionRecord> conversions;
  std::vector<AfterPass> after;  // One for each pass, in their order, if they are wanted.
};

}  // namespace gangway
