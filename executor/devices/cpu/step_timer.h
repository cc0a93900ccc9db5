// StepTimer: what the steps of a compiled function cost on a modelled device; a real one takes the
// time that it takes.
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
  // `bytes`: of the larger of what a member gives and what it gets.
  virtual int64_t collective_ns(CollectiveKind kind, double bytes,
                                const PeerCounts& peers) const = 0;
  // A step that costs so much begins: how long it takes now. The device is busy with it.
  virtual int64_t begin_step(const CallFrame& frame, Turn& turn, int64_t cost_ns) = 0;
  // The same of a collective, whose members have all come.
  virtual int64_t begin_collective(const CallFrame& frame, Turn& turn, int64_t cost_ns) = 0;
};

}  // namespace gangway
