// TimedFunction: a local function of which only the time passes: its kernels take the time that the
// op table and the rates say, its collectives wait for all their members, and no tensor is touched.
//
// Kernels between two collectives, or up to a join, are one wait, so that a step of a large model
// on a thousand devices is a few thousand events. Iterations are not walked one by one: their cost
// is known.
//
// Threads: immutable; advance() on the device's (the reactor's).
// Errors: none beyond those of planning.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "executor/devices/cpu/overlapped_collectives.h"
#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/lower/planned_function.h"

namespace gangway {

class TimedFunction final : public PlannedFunction {
 public:
  // `timer` outlives the function.
  TimedFunction(const LocalFunction& local, StepTimer& timer);

  Progress advance(CallFrame& frame, Turn& turn) const override;
  Progress join(CallFrame& frame, Turn& turn) const override;
  void check_committed(const CallFrame&, DeviceStream&, uint32_t*) const override {}  // No values.

 private:
  const PlannedStep& planned_step(uint32_t step) const;
  Progress join_at(uint32_t step, OverlappedCollectives& overlapped) const;
  void begin_kernels(CallFrame& frame, Turn& turn, uint32_t end) const;
  void record_kernels(const CallFrame& frame, Turn& turn, uint32_t end, int64_t cost_ns) const;

  StepTimer& timer_;
  std::vector<std::vector<PlannedStep>> planned_;  // Indexed by part, then by node.
  std::optional<StepSums> costs_ns_;               // Costs of the kernels.
  std::optional<StepMarks> events_;                // Collectives and joins.
};

}  // namespace gangway
