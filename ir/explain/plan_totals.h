// Sums of the bytes that a plan's devices hold and send.
//
// Threads: pure functions on checked plans.
// Cost: linear in the nodes of the plan's functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/op_table/op.h"
#include "ir/plan/islands.h"
#include "ir/plan/plan.h"

namespace gangway {

// Collectives of one kind on a slice, with the slowest class of link between their members.
struct CollectiveTotal {
  uint32_t slice = 0;
  Op op = Op::all_reduce;
  LinkClass link = LinkClass::kHost;
  int64_t tensors = 0;     // Number in a run; a body's collectives count as often as it runs.
  int64_t sent_bytes = 0;  // Least that each device of the slice sends in a run.
};
// Ascending by slice, kind and class of link.
std::vector<CollectiveTotal> collective_totals(const Plan& plan);

// Bytes of states that each device holds, indexed by slice.
std::vector<int64_t> state_bytes(const Plan& plan);

// "each device of slice "main" holds 1.2 MiB of states; sends 36.0 KiB in a run: all_reduce within
// a host 36.0 KiB (12 tensors)", a line for each slice.
std::string plan_totals_text(const Plan& plan, const std::vector<std::string>& slices);

}  // namespace gangway
