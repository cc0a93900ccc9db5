// What a plan has its devices hold and send, in sums.
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

// Collectives of one kind on a slice, whose members lie so far apart at most.
struct CollectiveTotal {
  uint32_t slice = 0;
  Op op = Op::all_reduce;
  LinkClass link = LinkClass::kHost;
  int64_t tensors = 0;     // In a run; those of a body as often as it runs.
  int64_t sent_bytes = 0;  // By each device of the slice in a run, at least.
};
// By slice, kind and class of link.
std::vector<CollectiveTotal> collective_totals(const Plan& plan);

// Of states, by slice: what each of its devices holds.
std::vector<int64_t> state_bytes(const Plan& plan);

// "each device of slice "main" holds 1.2 MiB of states; sends 36.0 KiB in a run: all_reduce within
// a host 36.0 KiB (12 tensors)", a line for each slice.
std::string plan_totals_text(const Plan& plan, const std::vector<std::string>& slices);

}  // namespace gangway
