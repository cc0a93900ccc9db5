// JoinPlan: where in a function the compute stream waits for all-reduces that run beside it.
//
// An all-reduce runs beside the steps behind it, until one of them reads what it writes, or
// writes what it reads or writes: its operands and results, and whatever else memory planning has
// put into the same bytes since. All are joined at the commit point and at the function's end,
// those of a body at the end of their iteration.
//
// Invariant: all-reduces end in their order (one stream), so a step waits for a number of the
// oldest; the rest, the newest `beside`, go on. join_plan_test holds it to every pair of steps.
// Threads: pure.
// Cost: nodes * operands of the all-reduces that are under way; once per function.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway::cuda {

struct Join {
  bool wait = false;
  uint32_t beside = 0;  // How many of the newest all-reduces need not be done.
};

// Bytes that a node may touch.
struct Touch {
  MemorySlot at;
  int64_t bytes = 0;
  bool writes = false;
};
std::vector<Touch> touched(const LocalFunction& local, const MemoryPlan& memory,
                           const std::vector<int64_t>& scratch_bytes, NodeId id);

// By NodeId: what is waited for before the node; and behind the last, where something is under way
// still: of a body, whose next iteration uses the same memory. `scratch_bytes` by NodeId, as
// `memory` has placed.
std::vector<Join> plan_joins(const LocalFunction& local, const MemoryPlan& memory,
                             const std::vector<int64_t>& scratch_bytes);

}  // namespace gangway::cuda
