// The work of each device in a run, in order, as JSON: the field "plan" of the page's document
// (docs/page_document.md).
//
// Threads: pure. Cost: linear in the nodes of the plan and of its functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway::tool {

// Returns the parts that lie in the arena while a function runs, the function itself last.
using ArenaOf = std::function<std::vector<PlannedPart>(const LocalFunction&)>;

// `arena_of` is called once for each function of the plan; its result lives until the next call.
std::string plan_document(const Plan& plan, const ArenaOf& arena_of);

}  // namespace gangway::tool
