// The collectives of a local function: what devices exchange in one run of it.
//
// Collectives of a body count once for each time that it runs, so a model has the same totals
// whether its layers are a loop or not.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// One node in which devices meet.
struct CollectiveUse {
  Op op = Op::all_reduce;
  std::string axes;     // "data,expert": the mesh axes along which its members differ.
  int64_t members = 1;  // Number of devices that meet.
  // One device's tensors before the collective; an all-reduce may have several.
  std::vector<Type> tensors;
  // B of docs/collectives.md, of all tensors: their size after a gather, and before all other
  // collectives.
  int64_t bytes = 0;
  int64_t times = 1;  // Executions in a run.

  // Least that each member sends in one run: 2 B (n - 1) / n for an all-reduce, B for a permute and
  // a broadcast, else B (n - 1) / n.
  int64_t sent_bytes() const;
};

// The collective of one node where devices meet (OpRow::meets), counted once.
CollectiveUse collective_of(const Function& local, NodeId id);

// In the order of their nodes; a body's collectives follow at the node that names it.
std::vector<CollectiveUse> collectives_of(const Function& local);

// One line for each op and list of axes, by name: "all_gather over data: 12 tensors, 3072 bytes
// whole, 1536 sent by each device".
std::string summary_of(const std::vector<CollectiveUse>& uses);

}  // namespace gangway
