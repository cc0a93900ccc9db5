// What a host answers when a plan is installed on it: what its devices need, and the memory that it
// offers to its peers.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/os/shared_segment.h"

namespace gangway {

// What a plan asks of one device of a host, in bytes; `total` is what its allocator is asked for,
// exactly.
struct DeviceNeed {
  uint32_t device = 0;
  int64_t arena = 0;  // Temporaries and scratchpads.
  int64_t state = 0;  // States that this plan would add.
  // Buffers with one copy for each run in flight: inputs, sources, outputs, transfers.
  int64_t slots = 0;
  int64_t total() const { return arena + state + slots; }
};

// A shared segment that a host created for a plan and that its peers open.
struct SegmentOffer {
  std::string key;  // "plan 0", "bells 3": the same on all hosts of the plan.
  SegmentDescriptor segment;
};

struct Installed {
  std::vector<DeviceNeed> needs;
  std::vector<SegmentOffer> offers;
};

}  // namespace gangway
