// Compiles one function: runs the passes of ir/transforms/passes.h, in their order, from a function
// in the global view to what one device runs.
//
// Threads: pure functions.
// Errors: kInvalid with the user's line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/function.h"
#include "ir/plan/islands.h"
#include "ir/plan/plan.h"

namespace gangway {

// Facts about a function that come from its program.
struct CallContext {
  std::vector<LocalFunction::InPlace> in_place;  // State updates.
  uint32_t finite_result = kNone;
  // The annotated placements. An empty entry takes whatever propagation gives, but is never
  // partial. In-place results have the sharding of their parameter.
  std::vector<AxisPlacements> result_placements;
  std::string device_kind = "cpu";  // Sections are cut by its rates (ir/plan/rates.h).
  // Link class of each mesh axis, from where its devices are (ir/plan/axis_links.h); empty: all
  // alike. It decides between conversions of equal cost, and nothing else.
  std::vector<LinkClass> links = {};
  // Devices can't meet while they install, so no collective may be in it: an initialiser.
  bool alone = false;
};

struct CompileRecord;  // compile_record.h

struct Compiled {
  LocalFunction local;
  std::vector<Sharding> parameter_shardings;
  std::vector<Sharding> result_shardings;
};

// Called with the name of each pass before the pass begins. An exception from it ends the compile.
using PassWatch = std::function<void(std::string_view pass)>;

// `record` receives the decisions of the passes; null: no record is kept.
Compiled compile_function(const Function& global, const CallContext& context,
                          const PassWatch& watch = {}, CompileRecord* record = nullptr);

}  // namespace gangway
