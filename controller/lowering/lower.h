// Lowering: a verified program and the physical devices of its slices become one plan.
//
// Calls are compiled once for each distinct (function, context), by content hash. Nodes keep the
// program's order, which is a linear extension of its edges; the gate and the commits follow, so
// that every call that updates state has its first phase before the gate and its last after it.
//
// Threads: pure but for the cache, which any thread may use.
// Errors: kInvalid or kUnimplemented with the user's line; a program that does not fit is the
// executors' to say.
// Cost: O(nodes), plus compilation of what the cache does not hold. Nothing grows with shards.
//
// Example:
//   CompileCache cache;
//   Plan plan = lower(program, {.slices = {ranges}, .hosts = {"host-0"}}, cache);
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/lowering/compile_cache.h"
#include "ir/graph/program.h"
#include "ir/plan/plan.h"
#include "ir/transforms/compile_record.h"

namespace gangway {

// How far lower() is: of the nodes of all functions that the program's nodes name.
struct LowerProgress {
  std::string_view function;
  std::string_view pass;  // That begins.
  size_t done = 0, total = 0;
};

struct LowerOptions {
  std::vector<std::vector<PlanRange>> slices;  // For each slice of the program.
  std::vector<uint32_t> ranks_per_device;      // The same; empty: one on each.
  std::vector<std::string> kinds;    // Of device, by slice of the program; empty: all are "cpu".
  std::vector<std::string> hosts;    // What PlanRange::host counts.
  std::vector<std::string> islands;  // By host; empty: all lie in one.
  int64_t runs_in_flight_max = 2;
  Dispatch dispatch = Dispatch::kParallel;
  bool overlaid = false;  // Plan::overlaid, where nothing of it is dispatched sequentially.
  // Told before each pass over a function. What it throws ends lower().
  std::function<void(const LowerProgress&)> on_progress;
  // Told of each call of the program, by its node, why it was compiled as it was. Nothing is taken
  // from the cache then.
  std::function<void(uint32_t node, CompileRecord)> on_record = {};
};

Plan lower(const Program& program, const LowerOptions& options, CompileCache& cache);

// With which a plan was lowered, for devices of these kinds, by slice.
LowerOptions options_of(const Plan& plan, std::vector<std::string> kinds);

}  // namespace gangway
