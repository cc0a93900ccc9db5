// CudaFunction: a local function as a flat list of steps: commands for a card, collectives, waits.
//
// Commands between two waits that come again with the same addresses are replayed as one graph.
// All-reduces run beside the steps behind them (join_plan.h). They stay out of the graphs: a graph
// ends only when everything that it forked has ended, so nothing launched after it could overlap
// them; and a new communicator would require all its graphs to be captured again. A run walks the
// list and launches; nothing is allocated, looked up or decided on the way, and nothing is waited
// for but a collective's meeting on the host.
//
// In a checked run (CallFrame::check) the card checks every float tensor as soon as it is computed,
// and the host reads the findings once all steps are done; see CpuFunction.
//
// Threads: immutable; advance() on a device's thread. All devices of a Gpu may run it.
// Errors: the constructor throws with the user's line; a launch that fails goes to the frame's
// error.
// Cost: 0.1 us a command, and the driver's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/cuda/join_plan.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/planned_function.h"

namespace gangway {

class CudaFunction final : public PlannedFunction {
 public:
  CudaFunction(const LocalFunction& local, std::shared_ptr<cuda::Gpu> gpu);

  Progress advance(CallFrame& frame, Turn& turn) const override;

 private:
  struct Step : PlannedStep {
    std::vector<cuda::Command> commands;
    std::string label;  // What the driver calls it: "step: %14 dot".
    cuda::Join join;    // What compute waits for first.
  };

  void place(cuda::Command& command, NodeId id) const;

  Progress advance_steps(CallFrame& frame, Turn& turn) const;
  Progress advance_timed(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_collective(const Step& step, CallFrame& frame) const;
  cuda::Status issue_on(const Step& step, const CallFrame& frame, cuda::StreamHandle stream) const;
  void issue(const Step& step, CallFrame& frame, CudaDevice& device) const;
  void advance_commands(CallFrame& frame, CudaDevice& device) const;
  uint32_t commands_end(const CallFrame& frame) const;
  void fail(CallFrame& frame, CudaDevice& device, const cuda::Status& status) const;
  void fail(CallFrame& frame, const Error& failure) const;

  void begin_check(CallFrame& frame, Device& device) const;
  void check_values(CallFrame& frame, Device& device, ValueId first, uint32_t count) const;
  Progress end_check(CallFrame& frame, Device& device) const;

  const std::shared_ptr<cuda::Gpu> gpu_;
  std::vector<Step> steps_;
  const std::shared_ptr<const void> alive_ = std::make_shared<int>();
  cuda::GraphOwner owner_;  // Of the graphs that devices make of it.
};

}  // namespace gangway
