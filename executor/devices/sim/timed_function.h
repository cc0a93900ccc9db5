// TimedFunction: a local function of which only the time passes: its kernels take what the op table
// and the rates say, its collectives wait for all their members, and no tensor is touched.
//
// Kernels between two collectives are one wait, so that a step of a large model on a thousand
// devices is a few thousand events.
//
// Threads: immutable; advance() on the device's (the reactor's).
// Errors: none beyond those of planning.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/lower/planned_function.h"

namespace gangway {

class TimedFunction final : public PlannedFunction {
 public:
  // `timer` outlives the function.
  TimedFunction(const LocalFunction& local, StepTimer& timer);

  Progress advance(CallFrame& frame, Turn& turn) const override;

 private:
  void begin_kernels(CallFrame& frame, Turn& turn) const;
  Progress advance_collective(CallFrame& frame, Turn& turn) const;
  uint32_t kernels_end(const CallFrame& frame) const;

  StepTimer& timer_;
  std::vector<PlannedStep> steps_;
  std::vector<int64_t> cost_before_ns_;    // By step, and their end: of the kernels before it.
  std::vector<uint32_t> next_collective_;  // By step: the first that is not before it.
};

}  // namespace gangway
