// PlannedFunction: what compiled functions of all devices share: one step for each node, the places
// of their tensors, collectives and waits, and which step a checked run (CallFrame::check) blames.
//
// A device's own function says what scratch its steps need and plans memory, once; bases of a call
// are then its parameters, its results and one arena.
//
// Threads: immutable once planned. Errors: none; a device's own function throws while it lowers.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "executor/devices/device.h"
#include "executor/devices/lower/met_node.h"
#include "executor/devices/lower/place.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

class PlannedFunction : public CompiledFunction {
 public:
  int64_t arena_bytes() const override { return memory_.arena_bytes; }
  uint32_t step_count() const override { return static_cast<uint32_t>(function().nodes.size()); }
  uint32_t commit_step() const override { return local_.commit_begin; }
  std::vector<uint32_t> section_steps() const override;
  bool has_collective(uint32_t begin, uint32_t end) const override;
  StepText describe_step(uint32_t step) const override;

 protected:
  enum class StepKind : uint8_t { kKernel, kTimed, kCollective };
  struct PlannedStep {
    StepKind kind = StepKind::kKernel;
    int64_t duration_ns = 0;  // kTimed.
    // kCollective.
    uint32_t collective = 0;  // Index into collective_needs().
    const MetNode* met = nullptr;
  };

  explicit PlannedFunction(LocalFunction local);
  // Places everything. `scratch_bytes`: by NodeId.
  void plan(const std::vector<int64_t>& scratch_bytes, Collectives collectives);
  PlannedStep step_of(NodeId id);

  const LocalFunction& local() const { return local_; }
  const Function& function() const { return *local_.function; }
  const MemoryPlan& memory() const { return memory_; }
  Place place_of(ValueId value) const;
  Place scratch_of(NodeId id) const;
  std::byte* address(const CallFrame& frame, ValueId value) const;

  // The frame's step begins: its tensors are handed to its collective.
  void begin_collective(const PlannedStep& step, CallFrame& frame) const;
  // Of a collective that waits.
  static Hold hold_of(const Collective& collective, const Turn& turn);
  // The frame's step ends when the device's clock has come to frame.resume_at_ns.
  static Progress wait_to_resume(CallFrame& frame, Turn& turn);

  // A step is blamed whose inputs were finite and whose results are not; values that hold
  // infinities by intention (masked_values.h) aside. `finite`: of a ValueId.
  template <class Finite>
  bool inputs_finite(NodeId id, const Finite& finite) const {
    const std::vector<ValueId>& inputs = function().nodes[id].inputs;
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](ValueId input) { return masked_[input] || finite(input); });
  }
  template <class Finite>
  bool results_finite(NodeId id, const Finite& finite) const {
    const Node& node = function().nodes[id];
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      if (!masked_[value] && !finite(value)) return false;
    }
    return true;
  }

 private:
  uint32_t arena_base() const;

  const LocalFunction local_;
  const std::vector<bool> masked_;  // By ValueId.
  std::map<NodeId, const MetNode> met_;
  MemoryPlan memory_;
};

}  // namespace gangway
