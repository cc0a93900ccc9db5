// CpuFunction: a local function as a flat list of commands: kernels, collectives and waits, in
// order.
//
// A run walks the list; it allocates nothing, and looks nothing up. Collectives overlap with later
// steps, and are polled between steps (overlapped_collectives.h). The commands of a body are in the
// list once: a scan enters them, and their end goes back to their begin until all iterations are
// done (CallFrame::at has the frame's position). A checked run (CallFrame::check) checks every
// float tensor between steps, until it knows which step to blame.
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
  // `timer`: charges for the steps of a modelled device; null on a real one. Must outlive the
  // function.
  CpuFunction(const LocalFunction& local, Parallel& par, StepTimer* timer = nullptr,
              const TrustedFiles* trusted = nullptr);

  Progress advance(CallFrame& frame, Turn& turn) const override;
  Progress join(CallFrame& frame, Turn& turn) const override;

 private:
  // `duration_ns` of a kernel is the time that the timer charges.
  struct Step : PlannedStep {
    uint32_t first_operand = 0;  // Index into operands_: inputs, then results.
    uint32_t inputs = 0;
    cpu::Kernel kernel;
    Address scratch;
    uint32_t loop = 0;  // kEnterBody: index into loops_.
    // Joins before the step: a range of joins_.
    uint32_t first_join = 0, joins = 0;
  };
  struct Loop {
    BodyLoop addresses;
    uint32_t first_command = 0;  // First command of the body.
  };

  void add_part(uint32_t part, std::vector<cpu::Kernel> kernels);
  void add_step(Step step, const std::vector<Join>& joins);
  Step kernel_step(uint32_t part, NodeId id, cpu::Kernel kernel);
  Step body_step(uint32_t part, NodeId id);
  void go_to(CallFrame& frame, uint32_t step) const;
  void enter(CallFrame& frame, uint32_t command, uint32_t iteration) const;
  uint32_t next_iteration(CallFrame& frame) const;
  bool is_in_last_iteration(const CallFrame& frame) const;
  Progress advance_overlapped(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_step(const Step& step, CallFrame& frame, Turn& turn) const;
  void run_kernel(const Step& step, CallFrame& frame) const;
  void run_traced(const Step& step, CallFrame& frame, Turn& turn) const;
  static void record_span(const Step& step, const CallFrame& frame, Turn& turn, int64_t begin_ns,
                          int64_t end_ns);
  Progress advance_collective(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_timed(const Step& step, CallFrame& frame, Turn& turn) const;
  bool finite(const CallFrame& frame, const Part& part, ValueId value) const;
  bool looks_at(const CallFrame& frame, const Step& step) const;
  void check_results(CallFrame& frame, const Step& step) const;

  Parallel& par_;
  StepTimer* const timer_;
  std::vector<uint32_t> first_command_;  // Indexed by part.
  std::vector<Step> steps_;
  std::vector<Loop> loops_;
  std::vector<Address> operands_;
  std::vector<Join> joins_;
};

}  // namespace gangway
