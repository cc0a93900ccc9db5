// The collectives of a call that overlap with its steps: begun at their position in the function,
// polled between steps, and waited for where the join plan (ir/transforms/memory/join_plan.h) says.
//
// A modelled device moves the bytes of one collective at a time, each as long as its timer says,
// once all members have begun it. When the device must wait, it is busy for the rest of that time.
//
// Threads: the device's. Errors: a collective that fails, or has a poisoned member, poisons the
// frame once it is done.
// Cost of a poll: that of Collective::advance() for each group with an unfinished collective.
#pragma once

#include <span>

#include "executor/devices/compiled_function.h"
#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/device_stream.h"
#include "ir/transforms/memory/join_plan.h"

namespace gangway {

class OverlappedCollectives {
 public:
  // `timer`: that of a modelled device; null on a real one.
  OverlappedCollectives(const CompiledFunction& function, CallFrame& frame, Turn& turn,
                        StepTimer* timer)
      : function_(function), frame_(frame), turn_(turn), timer_(timer) {}

  bool none() const { return frame_.overlapped_count == 0; }
  // Adds the newest collective of the stream, for the frame's step. The caller fills in the item.
  CollectiveQueue::Item& begin(uint32_t stream);
  // The frame's step is passed over: it counts as done together with those before it.
  void pass_over(uint32_t stream);
  void poll();
  // Drops the collectives of a run that was given up.
  void drop();
  // kPending: the frame says how it blocks the device.
  Progress join(std::span<const Join> joins);
  Progress join_all();
  // Waits for the collective that the last of these calls waited for, if it is still under way.
  Progress join_awaited();

 private:
  void poll(uint32_t stream, int64_t now_ns);
  void meet(uint32_t stream, CollectiveQueue::Item& item, int64_t now_ns);
  Progress wait_for(uint32_t stream, CollectiveQueue::Item& item);
  void record(const CollectiveQueue::Item& item, int64_t end_ns);

  const CompiledFunction& function_;
  CallFrame& frame_;
  Turn& turn_;
  StepTimer* const timer_;
};

}  // namespace gangway
