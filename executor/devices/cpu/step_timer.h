// StepTimer: costs of the steps of a compiled function on a modelled device. A real device has
// none.
//
// Threads: costs anywhere; the rest on the device's.
// Ownership: outlives the functions that use it.
#pragma once

#include <cstdint>

#include "executor/collectives/collective_kind.h"
#include "executor/transfers/link_meter.h"
#include "ir/graph/function.h"

namespace gangway {

struct CallFrame;
struct Turn;

class StepTimer {
 public:
  virtual ~StepTimer() = default;
  virtual int64_t kernel_ns(const Function& function, NodeId node) const = 0;
  // `bytes`: the larger of what a member gives and what it gets.
  virtual int64_t collective_ns(CollectiveKind kind, double bytes,
                                const PeerCounts& peers) const = 0;
  // A step of this cost begins. Returns how long it takes now; the device is busy with it.
  virtual int64_t begin_step(const CallFrame& frame, Turn& turn, int64_t cost_ns) = 0;
  // The same for a collective that all members have begun.
  virtual int64_t begin_collective(const CallFrame& frame, Turn& turn, int64_t cost_ns) = 0;
};

}  // namespace gangway
