// The collectives of a call that run beside its steps: begun where the function has them, polled
// between steps, waited for where the join plan (ir/transforms/memory/join_plan.h) says.
//
// A modelled device moves the bytes of one collective at a time, each as long as its timer says,
// from when all members have come. It is busy with what is left of that when it must wait.
//
// Threads: the device's. Errors: a collective that fails, or has a poisoned member, poisons the
// frame once it is done.
// Cost: of a poll, that of Collective::advance() for each group in which something is under way.
#pragma once

#include <span>

#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/device.h"
#include "ir/transforms/memory/join_plan.h"

namespace gangway {

class CollectivesBeside {
 public:
  // `timer`: of a modelled device; null: of none.
  CollectivesBeside(const CompiledFunction& function, CallFrame& frame, Turn& turn,
                    StepTimer* timer)
      : function_(function), frame_(frame), turn_(turn), timer_(timer) {}

  bool none() const { return frame_.beside_count == 0; }
  // The newest of its stream: the frame's step. The caller says what it is.
  CollectiveQueue::Item& begin(uint32_t stream);
  // The frame's step is passed over: it counts as done with those before it.
  void pass_over(uint32_t stream);
  void poll();
  // Those of a run that was given up.
  void drop();
  // kPending: the frame says how long it holds the device.
  Progress join(std::span<const Join> joins);
  Progress join_all();
  // For the one that the last of these has waited for, if it is still under way.
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
