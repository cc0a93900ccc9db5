// Lowering: a verified program and the physical devices of its slices become one plan.
//
// Calls are compiled once for each distinct (function, context), by content hash. Nodes keep the
// program's order, which is a linear extension of its edges; the gate and the commits follow, so
// that every call that updates state has its first phase before the gate and its last after it.
//
// Threads: pure but for the cache, which any thread may use.
// Errors: kInvalid or kUnimplemented with the user's line. Only installing shows that a program
// fits.
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

#include "controller/plans/compile_cache.h"
#include "ir/graph/program.h"
#include "ir/plan/plan.h"
#include "ir/transforms/compile_record.h"

namespace gangway {

// Progress of lower(), counted in nodes of all functions that the program's nodes name.
struct LowerProgress {
  std::string_view function;
  std::string_view pass;  // The pass that begins.
  size_t done = 0, total = 0;
};

struct LowerOptions {
  std::vector<std::vector<PlanRange>> slices;  // For each slice of the program.
  std::vector<uint32_t> ranks_per_device;      // For each slice; empty: one on each device.
  std::vector<std::string> kinds;    // Kind of device for each slice; empty: all are "cpu".
  std::vector<std::string> hosts;    // Names that PlanRange::host counts.
  std::vector<std::string> islands;  // One for each host; empty: all lie in one.
  std::vector<uint32_t> machines;    // See Plan::machines.
  int64_t runs_in_flight_max = 2;
  Dispatch dispatch = Dispatch::kParallel;
  bool overlaid = false;  // See Plan::overlaid; only if nothing is dispatched sequentially.
  // Called before each pass over a function. An exception that it throws ends lower().
  std::function<void(const LowerProgress&)> on_progress;
  // Called for each call of the program with its node and the reasons why it was compiled as it
  // was. Nothing is taken from the cache then.
  std::function<void(uint32_t node, CompileRecord)> on_record = {};
  bool records_passes = false;  // The records have the function behind each pass.
};

Plan lower(const Program& program, const LowerOptions& options, CompileCache& cache);

// Options with which a plan was lowered, for devices of these kinds, one kind for each slice.
LowerOptions options_of(const Plan& plan, std::vector<std::string> kinds);

}  // namespace gangway
