// CpuFunction: a local function as a flat list of steps: kernels, collectives and waits, in order.
//
// A run walks the list; nothing is allocated, looked up or decided on the way. A checked run
// (CallFrame::check) looks at every float tensor between steps, until it knows which to blame.
//
// Threads: immutable; advance() on the device's thread.
// Errors: make() throws with the user's line; advance() cannot fail.
// Cost: 10-20 ns a step plus the kernel.
#pragma once

#include <memory>
#include <vector>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/lower/planned_function.h"

namespace gangway {

class CpuFunction final : public PlannedFunction {
 public:
  // `timer`: what a modelled device charges for its steps; null on a real one, whose steps take the
  // time that they take. Must outlive the function.
  CpuFunction(const LocalFunction& local, Parallel& par, StepTimer* timer = nullptr);

  Progress advance(CallFrame& frame, Turn& turn) const override;

 private:
  // `duration_ns` of a kernel is what the timer charges.
  struct Step : PlannedStep {
    uint32_t first_operand = 0;  // Inputs, then results, in operands_.
    uint32_t inputs = 0;
    cpu::Kernel kernel;
    Place scratch;
  };

  void add_step(NodeId id, cpu::Kernel kernel);
  void run_kernel(const Step& step, CallFrame& frame) const;
  void run_traced(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_collective(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_timed(const Step& step, CallFrame& frame, Turn& turn) const;
  bool finite(const CallFrame& frame, ValueId value) const;
  bool inputs_finite(const CallFrame& frame, NodeId id) const;
  void check_results(CallFrame& frame, NodeId id) const;

  Parallel& par_;
  StepTimer* const timer_;
  std::vector<Step> steps_;
  std::vector<Place> operands_;
};

}  // namespace gangway
