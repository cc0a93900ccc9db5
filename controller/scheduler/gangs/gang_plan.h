// GangPlan: what the gang scheduler knows of a plan. Per slice: where it lies, how long its
// positions take by the cost model, and which of them wait for what another slice does.
//
// Threads: a value. Cost: O(nodes + positions), once a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/lowering/plans.h"

namespace gangway {

struct GangPlan {
  // A position that may be granted only once what it waits on has lower tickets, or has ended.
  struct Stop {
    uint32_t position = 0;
    bool is_gate = false;  // Waits until all slices have come to it.
    // A receive waits for this position of this slice, its send. kNone: it is none.
    uint32_t slice = kNone, sent = 0;
    // Dispatched sequentially: its send and the positions of its slice before `after` must have
    // ended, and their hosts have said so.
    bool is_sequential = false;
    uint32_t after = 0;
  };
  struct Slice {
    SliceId id;
    std::vector<DeviceRef> devices;
    std::vector<int64_t> modelled_ns;  // By position; 0: nothing that occupies a device.
    std::vector<Stop> stops;           // Ascending.
  };
  SessionId program;
  uint64_t scope = 0;      // Runs of one scope share states, so they keep their order.
  uint64_t positions = 0;  // How many tickets a run takes; the gate takes one.
  // Its turns are sections. Otherwise a turn is a whole run, in all its slices at once: where its
  // hosts do not report sections, where a device is in two of its slices, and does all nodes of a
  // run in their order, and where its temporaries lie over those of others (Plan::overlaid): were
  // it granted in parts, two programs could each be in the middle of a run on devices that the
  // other needs, and wait for each other for ever.
  bool by_section = true;
  // Some of it is dispatched sequentially, so no run is granted whole at once, and none begins
  // before the earlier ones of its scope and those whose outputs it takes have ended.
  bool is_sequential = false;
  std::vector<Slice> slices;
};

GangPlan gang_plan(const PlanRecord& record, bool by_section);

}  // namespace gangway
