// PlannedFunction: the common part of compiled functions of all devices: their steps
// (ir/plan/step_map.h), the addresses of their tensors, collectives and waits, and the choice of
// the step that a checked run (CallFrame::check) blames.
//
// A function and the bodies of its scans and calls are its *parts*. Each part is lowered and has
// its memory planned once, however often it is run: a body has bases of its own, which a BodyLoop
// points to the tensors of an iteration.
//
// Collectives overlap with later steps, up to where the join plan of their part waits for them
// (ir/transforms/memory/join_plan.h).
//
// A device's own function says what scratch its kernels need, and plans memory, once. The bases of
// a call are then its parameters, its results and one arena, and behind them the bases of the
// bodies, which a call fills in itself.
//
// Threads: immutable once planned. Errors: none; a device's own function throws while it lowers.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "executor/devices/compiled_function.h"
#include "executor/devices/device_stream.h"
#include "executor/devices/lower/addresses.h"
#include "executor/devices/lower/body_loop.h"
#include "executor/devices/lower/masked_values.h"
#include "executor/devices/lower/met_node.h"
#include "ir/plan/step_map.h"
#include "ir/transforms/memory/join_plan.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

class PlannedFunction : public CompiledFunction {
 public:
  int64_t arena_bytes() const override { return main().addresses.arena_bytes(); }
  uint32_t step_count() const override { return steps_.count(); }
  uint32_t commit_step() const override { return steps_.first_step(local_.commit_begin); }
  std::vector<uint32_t> section_steps() const override;
  bool has_collective(uint32_t begin, uint32_t end) const override;
  StepText describe_step(uint32_t step) const override;
  void check_committed(const CallFrame& frame, DeviceStream& stream, uint32_t* flag) const override;
  // Bodies before those that run them, the function last; valid while this lives.
  std::vector<PlannedPart> memory_plans() const;

 protected:
  // The function, or a body. StepMap has the parts in the same order: each behind those that its
  // own nodes run, the function last.
  struct Part {
    const Function* function = nullptr;
    const std::vector<bool>* masked = nullptr;  // Indexed by ValueId.
    Addresses addresses;
    struct Met {
      MetNode node;
      uint32_t collective = 0;  // Index into collective_needs().
    };
    std::map<NodeId, const Met> met;
    JoinPlan joins;
    // A body that only scans name, which split it in the same way.
    std::optional<Repeated> repeated;
  };
  // Collectives that end in their order: all of a device, or those of a group of devices.
  enum class Streams : uint8_t { kOne, kByGroup };
  // kEnterBody and kEndOfBody are not steps: they are the begin and the end of a loop.
  enum class StepKind : uint8_t { kKernel, kTimed, kCollective, kEnterBody, kEndOfBody };
  struct PlannedStep {
    StepKind kind = StepKind::kKernel;
    int64_t duration_ns = 0;  // kTimed.
    // kCollective.
    uint32_t collective = 0;  // Index into collective_needs().
    const MetNode* met = nullptr;
    const Part* part = nullptr;
    NodeId node = kNone;  // Node of the part.
    bool ahead = false;   // Passed over in the last iteration of its loop.

    const Node& in_graph() const { return part->function->nodes[node]; }
  };

  explicit PlannedFunction(LocalFunction local);
  // Sets all addresses, and where overlapping collectives are waited for. `scratch_bytes`: for
  // nodes that are steps; `alignment`: that of the device's tensors, also of rows of stacked ones;
  // `together`: nodes of the function itself that no wait may separate.
  void plan(const ScratchBytes& scratch_bytes, Streams streams, int64_t alignment = 1,
            const std::vector<Together>& together = {});
  // The step of a node that is a step.
  PlannedStep step_of(uint32_t part, NodeId id) const;
  // The loop of a node that runs a body; memory must be planned.
  BodyLoop loop_of(uint32_t part, NodeId id) const;

  const LocalFunction& local() const { return local_; }
  const Function& function() const { return *local_.function; }
  const StepMap& steps() const { return steps_; }
  const Part& part(uint32_t index) const { return parts_[index]; }
  const Part& main() const { return parts_.back(); }
  // Number of base addresses that a call takes, those of bodies included.
  uint32_t bases() const { return bases_; }

  static std::byte* address(const CallFrame& frame, const Part& part, ValueId value) {
    const Address address = part.addresses.of(value);
    return frame.bases[address.base] + address.offset;
  }

  // The call of a collective on the tensors at their current addresses in the frame.
  static CollectiveCall call_of(const PlannedStep& step, const CallFrame& frame,
                                std::vector<CollectiveTensor>& tensors) {
    return step.met->at(tensors, [&](ValueId value) { return address(frame, *step.part, value); });
  }
  // The frame's step ends when the device's clock has come to frame.resume_at_ns.
  static Progress wait_to_resume(CallFrame& frame, Turn& turn);

  // A step is blamed whose inputs were finite and whose results are not; values that hold
  // infinities by intention (masked_values.h) aside. `finite`: of a ValueId of the part.
  template <class Finite>
  static bool inputs_finite(const Part& part, NodeId id, const Finite& finite) {
    const std::vector<ValueId>& inputs = part.function->nodes[id].inputs;
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](ValueId input) { return (*part.masked)[input] || finite(input); });
  }
  template <class Finite>
  static bool results_finite(const Part& part, NodeId id, const Finite& finite) {
    const Node& node = part.function->nodes[id];
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      if (!(*part.masked)[value] && !finite(value)) return false;
    }
    return true;
  }

 private:
  void find_loops();
  void find_collectives(Part& part);

  const LocalFunction local_;
  const StepMap steps_;
  const StepMarks collectives_;
  const MaskedValues masked_;
  const std::vector<ValueId> committed_;
  std::vector<Part> parts_;
  uint32_t bases_ = 0;
  int64_t alignment_ = 1;
};

}  // namespace gangway
