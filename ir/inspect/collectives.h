// The collectives of a local function: what devices exchange in one run of it.
//
// Those of a body count once for each time that it runs, so a model says the same whether its
// layers are a loop or not.
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
  std::string axes;           // "data,expert": the mesh axes along which its members differ.
  int64_t members = 1;        // How many meet.
  std::vector<Type> tensors;  // Of one device, before; an all-reduce may have several.
  // B of docs/collectives.md, of all tensors: what is whole after a gather, and before all others.
  int64_t bytes = 0;
  int64_t times = 1;  // In a run.

  // What each member sends, at least, in one run: 2 B (n - 1) / n of an all-reduce, B of a permute
  // and a broadcast, else B (n - 1) / n.
  int64_t sent_bytes() const;
};

// Of one node where devices meet (OpRow::meets), once.
CollectiveUse collective_of(const Function& local, NodeId id);

// In the order of their nodes; those of a body follow where it is named.
std::vector<CollectiveUse> collectives_of(const Function& local);

// One line for each op and list of axes, by name: "all_gather over data: 12 tensors, 3072 bytes
// whole, 1536 sent by each device".
std::string summary_of(const std::vector<CollectiveUse>& uses);

}  // namespace gangway
