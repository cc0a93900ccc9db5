// GangPlan: the gang scheduler's facts about a plan. For each slice: its devices, the modelled
// times of its positions, and the positions that wait for another slice.
//
// Threads: a value. Cost: O(nodes + positions), once a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/plans/plans.h"

namespace gangway {

struct GangPlan {
  // A position that may be granted only once the positions that it waits on have lower tickets, or
  // have ended.
  struct Stop {
    uint32_t position = 0;
    bool is_gate = false;  // Waits until all slices have come to it.
    // A receive waits for this position of this slice, its send. kNone: it waits for no send.
    uint32_t slice = kNone, sent = 0;
    // Dispatched sequentially: hosts must have reported the end of its send and of the positions of
    // its slice before `after`.
    bool is_sequential = false;
    uint32_t after = 0;
  };
  struct Slice {
    SliceId id;
    std::vector<DeviceRef> devices;
    std::vector<int64_t> modelled_ns;  // One for each position; 0: it occupies no device.
    std::vector<Stop> stops;           // Ascending.
  };
  SessionId program;
  uint64_t scope = 0;      // Runs of one scope share states, so they keep their order.
  uint64_t positions = 0;  // Number of tickets that a run takes; the gate takes one.
  // Turns of this plan are sections. Otherwise a turn is a whole run, in all its slices at once:
  // where its hosts do not report sections, where a device is in two of its slices and does all
  // nodes of a run in their order, and where its temporaries lie over those of others
  // (Plan::overlaid). If such runs were granted in parts, two programs could each be in the middle
  // of a run on devices that the other needs, and wait for each other for ever.
  bool by_section = true;
  // It is dispatched sequentially: no run is granted whole at once, and none begins before
  // the earlier runs of its scope and the runs whose outputs it takes have ended.
  bool is_sequential = false;
  std::vector<Slice> slices;
};

GangPlan gang_plan(const PlanRecord& record, bool by_section);

}  // namespace gangway
