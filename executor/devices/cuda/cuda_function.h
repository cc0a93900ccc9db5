// CudaFunction: a local function as a flat list of steps: commands for a card, collectives, waits.
//
// The steps of a body are in the list once, however often it is run: a scan enters them, and behind
// the last one an iteration ends and the next one begins (CallFrame::at has the frame's position;
// BodyLoop sets the body's bases to the tensors of the iteration).
//
// Commands between two waits that are repeated with the same addresses are replayed as one graph,
// in which the iterations of a scan are unrolled: the addresses of a body's tensors follow from the
// function's and from the step. Collectives overlap with later steps, up to the end of their
// iteration (ir/transforms/memory/join_plan.h). They stay out of the graphs: a graph ends only when
// everything that it forked has ended, so nothing launched after it could overlap them; and a new
// communicator would require all its graphs to be captured again. A run walks the list and
// launches; it allocates nothing, looks nothing up, and waits only for a collective's rendezvous on
// the host.
//
// In a checked run (CallFrame::check) the card checks what each step reads and writes, and the host
// waits for the result before the next step; see CpuFunction.
//
// Threads: immutable; advance() on a device's thread. All devices of a Gpu may run it.
// Errors: the constructor throws with the user's line; a launch that fails goes to the frame's
// error.
// Cost: 0.1 us a command, and the driver's own; a few ns for a replayed step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/devices/cuda/cuda_stream.h"
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
    // For nodes that run together: the last has the commands of all, unless a run is checked.
    enum class Role : uint8_t { kAlone, kWaits, kRunsAll } role = Role::kAlone;
    std::vector<cuda::Command> of_all;  // kRunsAll.
    std::string label;                  // Its name in the driver: "step: %14 dot".
    // Compute waits for all collectives but this many of the newest; none: it waits for no
    // collective.
    std::optional<uint32_t> joins_to;
    uint32_t loop = 0;  // kEnterBody: in loops_.
  };
  struct Loop {
    BodyLoop addresses;
    uint32_t first_command = 0;  // First command of the body.
  };
  // The commands that a part was lowered to.
  struct Lowered {
    std::vector<std::vector<cuda::Command>> commands;  // Indexed by node.
    std::vector<int64_t> scratch;
    std::vector<std::vector<cuda::Command>> of_all;  // Indexed like together_.
  };
  using Position = CallFrame::Position;
  using Keeps = std::vector<std::shared_ptr<const void>>;

  Lowered lower_part(uint32_t part, Keeps& keeps) const;
  void lower_all(Lowered& lowered, Keeps& keeps) const;
  void add_part(uint32_t part, Lowered lowered);
  void add_together(std::vector<std::vector<cuda::Command>> of_all);
  void place(cuda::Command& command, uint32_t part, NodeId id) const;

  // Goes through the list. Begin and end of a body are not steps, but commands that bind its bases.
  void go_to(CallFrame& frame, CudaStream& card, uint32_t step) const;
  const Loop& loop_of(const CallFrame::Loop& at) const { return loops_[steps_[at.command].loop]; }
  void enter_or_leave(Position& at) const;
  bool passes_over(const Step& step, const Position& at) const;
  cuda::Status enter_or_leave(CallFrame& frame, cuda::StreamHandle stream) const;
  void enter_or_leave(CallFrame& frame, CudaStream& card) const;
  cuda::Status begin_iteration(CallFrame& frame, cuda::StreamHandle stream) const;
  cuda::Status end_iteration(CallFrame& frame, cuda::StreamHandle stream) const;
  void bind_again(CallFrame& frame) const;
  Position ahead(Position at, uint32_t end) const;
  cuda::Status issue_to(const Position& end, CallFrame& frame, cuda::StreamHandle stream) const;
  cuda::Status issue_on(const Step& step, const CallFrame& frame, cuda::StreamHandle stream) const;
  bool replay_to(const Position& end, CallFrame& frame, CudaStream& card) const;
  void advance_commands(CallFrame& frame, CudaStream& card) const;

  Progress advance_steps(CallFrame& frame, Turn& turn) const;
  Progress advance_step(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_timed(const Step& step, CallFrame& frame, Turn& turn) const;
  Progress advance_collective(const Step& step, CallFrame& frame) const;
  void end_bodies(CallFrame& frame, CudaStream& card) const;
  void issue(const Step& step, CallFrame& frame, CudaStream& card) const;
  static bool can_issue(CallFrame& frame, const CudaStream& card);
  void fail(CallFrame& frame, CudaStream& card, const cuda::Status& status) const;

  Progress advance_checked(const Step& step, CallFrame& frame, Turn& turn) const;
  void check_inputs(const Step& step, CallFrame& frame, DeviceStream& card) const;
  void check_results(const Step& step, CallFrame& frame, DeviceStream& card) const;
  static void check(const Step& step, const CallFrame& frame, DeviceStream& card, ValueId value,
                    uint32_t* flag);
  void blame(const Step& step, CallFrame& frame) const;

  const std::shared_ptr<cuda::Gpu> gpu_;
  const Numerics numerics_;
  const std::vector<Together> together_;
  std::vector<uint32_t> first_command_;  // Indexed by part.
  std::vector<Step> steps_;
  std::vector<Loop> loops_;
  const std::shared_ptr<const void> alive_ = std::make_shared<int>();
  cuda::GraphOwner owner_;  // Owner of the graphs that devices make of it.
  uint32_t flags_ = 0;      // Most flags of one checked step.
};

}  // namespace gangway
