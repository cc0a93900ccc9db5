// CpuFunction: a local function as a flat list of steps: kernels, collectives and waits, in order.
//
// A run walks the list; nothing is allocated, looked up or decided on the way. Operands are (base,
// offset) pairs into the frame; the bases are parameters, results and one arena that the memory
// plan laid out.
//
// A checked run (CallFrame::check) looks at every float tensor between steps and stops looking at
// the first step whose inputs were finite and whose results are not; masked values are not blamed
// (devices/masked_values.h).
//
// Threads: immutable; advance() on the device's thread.
// Errors: make() throws with the user's line; advance() cannot fail.
// Cost: 10-20 ns a step plus the kernel.
#pragma once

#include <memory>
#include <vector>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/device.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

// What a step costs on a modelled device; a real one takes the time that it takes.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  virtual int64_t step_ns(double flops, double bytes) const = 0;
  virtual int64_t collective_ns(double bytes, uint32_t ranks) const = 0;
};

class CpuFunction final : public CompiledFunction {
 public:
  // `timer`: null on a real device; must outlive the function.
  CpuFunction(const LocalFunction& local, Parallel& par, const StepTimer* timer = nullptr);

  int64_t arena_bytes() const override { return memory_.arena_bytes; }
  uint32_t step_count() const override { return static_cast<uint32_t>(steps_.size()); }
  uint32_t commit_step() const override { return local_.commit_begin; }
  Progress advance(CallFrame& frame, Turn& turn) const override;

  const LocalFunction& local() const { return local_; }

 private:
  enum class StepKind : uint8_t { kKernel, kTimed, kAllReduce };
  struct Step {  // One for each node, in order.
    StepKind kind = StepKind::kKernel;
    uint32_t first_operand = 0;  // Inputs, then results, in operands_.
    uint32_t inputs = 0;
    uint32_t results = 0;
    cpu::Kernel kernel;
    cpu::Operand scratch;
    int64_t duration_ns = 0;  // kTimed; else what the timer charges.
    uint32_t collective = 0;  // kAllReduce: index into collective_needs().
    Reduction reduction = Reduction::kSum;
  };

  void add_step(NodeId id, std::vector<cpu::Lowered>& lowered);
  cpu::Operand operand(ValueId value) const;

  void run_kernel(const Step& step, CallFrame& frame) const;
  void run_traced(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_all_reduce(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_timed(const Step& step, CallFrame& frame, Turn& turn) const;
  bool finite(const CallFrame& frame, ValueId value) const;
  bool inputs_finite(const CallFrame& frame, NodeId id) const;
  void check_results(CallFrame& frame, NodeId id) const;

  const LocalFunction local_;
  Parallel& par_;
  const StepTimer* timer_;
  MemoryPlan memory_;
  std::vector<Step> steps_;
  std::vector<cpu::Operand> operands_;
  std::vector<bool> masked_;  // By ValueId: holds infinities by intention.
};

}  // namespace gangway
