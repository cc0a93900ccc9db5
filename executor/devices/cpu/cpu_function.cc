#include "executor/devices/cpu/cpu_function.h"

#include <algorithm>

#include "executor/kernels/reduce.h"

namespace gangway {

CpuFunction::CpuFunction(const LocalFunction& local, Parallel& par, StepTimer* timer)
    : PlannedFunction(local), par_(par), timer_(timer) {
  const size_t nodes = function().nodes.size();
  std::vector<cpu::Kernel> kernels(nodes);
  std::vector<int64_t> scratch(nodes, 0);
  for (NodeId id = 0; id < nodes; ++id) {
    const Op op = function().nodes[id].op;
    if (row(op).meets || op == Op::timed) continue;
    cpu::Lowered lowered = cpu::lower({{function(), id}, par.threads()});
    kernels[id] = std::move(lowered.kernel);
    scratch[id] = lowered.scratch_bytes;
  }
  plan(scratch, Collectives::kInOrder);
  for (NodeId id = 0; id < nodes; ++id) add_step(id, std::move(kernels[id]));
}

void CpuFunction::add_step(NodeId id, cpu::Kernel kernel) {
  const Node& node = function().nodes[id];
  Step step{{step_of(id)},
            static_cast<uint32_t>(operands_.size()),
            static_cast<uint32_t>(node.inputs.size()),
            std::move(kernel),
            scratch_of(id)};
  for (ValueId input : node.inputs) operands_.push_back(place_of(input));
  for (uint32_t r = 0; r < node.results; ++r) operands_.push_back(place_of(node.first_result + r));
  if (step.kind == StepKind::kKernel && timer_ != nullptr)
    step.duration_ns = timer_->kernel_ns(function(), id);
  steps_.push_back(std::move(step));
}

Progress CpuFunction::advance(CallFrame& frame, Turn& turn) const {
  while (frame.step < frame.end) {
    const Step& step = steps_[frame.step];
    if (step.kind == StepKind::kKernel && timer_ == nullptr && !frame.check) {
      if (!frame.poisoned) run_traced(step, frame, turn);
      turn.timed_until_ns = 0;
    } else if (step.kind == StepKind::kCollective) {
      if (advance_collective(step, frame, turn) == Progress::kPending) return Progress::kPending;
    } else if (advance_timed(step, frame, turn) == Progress::kPending) {
      return Progress::kPending;
    }
    ++frame.step;
  }
  return Progress::kDone;
}

void CpuFunction::run_kernel(const Step& step, CallFrame& frame) const {
  const Place* operands = operands_.data() + step.first_operand;
  step.kernel({par_, frame.bases.data(), operands, operands + step.inputs, step.scratch,
               frame.mesh_device});
}

// On a timeline a kernel is a span of its own, named as its op.
void CpuFunction::run_traced(const Step& step, CallFrame& frame, Turn& turn) const {
  internal::TraceBuffer* row = turn.device.trace_row;
  if (row == nullptr) return run_kernel(step, frame);
  const int64_t begin_ns = turn.device.now_ns();
  run_kernel(step, frame);
  const char* name = to_string(function().nodes[frame.step].op).data();  // Of a literal.
  row->record({name, begin_ns, turn.device.now_ns(), 0, frame.step});
}

// Kernels of modelled or checked runs, and `timed`: the step takes a given time, during which the
// device is busy. On a real device a timed step begins where the one before it ended, as on a card
// that has its next kernel queued: how late the thread woke is not the device's time.
Progress CpuFunction::advance_timed(const Step& step, CallFrame& frame, Turn& turn) const {
  const NodeId id = frame.step;
  if (!frame.begun) {
    if (frame.poisoned) return Progress::kDone;
    // In place, inputs are gone afterwards: look at them first.
    const bool looking = frame.check && frame.culprit == kNone && inputs_finite(frame, id);
    if (step.kind == StepKind::kKernel) {
      run_kernel(step, frame);
      turn.timed_until_ns = 0;
    } else {
      const Node& node = function().nodes[id];
      const std::byte* from = address(frame, node.inputs[0]);
      std::byte* to = address(frame, node.first_result);
      if (from != to) turn.device.copy(to, from, function().types[node.first_result].bytes());
    }
    if (looking) check_results(frame, id);
    if (step.duration_ns == 0) return Progress::kDone;
    frame.begun = true;
    frame.resume_at_ns = timer_ == nullptr
                             ? device_time_ns(turn) + step.duration_ns
                             : turn.now_ns + timer_->begin_step(frame, turn, step.duration_ns);
  }
  const int64_t end_ns = frame.resume_at_ns;
  if (wait_to_resume(frame, turn) == Progress::kPending) return Progress::kPending;
  if (timer_ == nullptr) turn.timed_until_ns = end_ns;
  return Progress::kDone;
}

Progress CpuFunction::advance_collective(const Step& step, CallFrame& frame, Turn& turn) const {
  Collective& collective = *frame.collectives[step.collective];
  const NodeId id = frame.step;
  if (!frame.begun) begin_collective(step, frame);
  if (frame.resume_at_ns == 0) {
    const bool looking = frame.check && frame.culprit == kNone && inputs_finite(frame, id);
    if (collective.advance() == Progress::kPending) {
      frame.holds = hold_of(collective, turn);
      return Progress::kPending;
    }
    if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
    if (looking && !frame.poisoned) check_results(frame, id);
    frame.resume_at_ns = 1;
    turn.timed_until_ns = 0;
    if (timer_ != nullptr) {
      const int64_t cost_ns =
          timer_->collective_ns(step.met->kind(), static_cast<double>(step.met->bytes()),
                                collective.peers()) /
          collective.ranks_here();
      turn.now_ns = turn.device.now_ns();
      frame.resume_at_ns = turn.now_ns + timer_->begin_collective(frame, turn, cost_ns);
    }
  }
  return wait_to_resume(frame, turn);
}

bool CpuFunction::inputs_finite(const CallFrame& frame, NodeId id) const {
  return PlannedFunction::inputs_finite(id, [&](ValueId value) { return finite(frame, value); });
}

void CpuFunction::check_results(CallFrame& frame, NodeId id) const {
  if (!results_finite(id, [&](ValueId value) { return finite(frame, value); })) frame.culprit = id;
}

bool CpuFunction::finite(const CallFrame& frame, ValueId value) const {
  const Type& type = function().types[value];
  return !is_float(type.dtype) ||
         all_finite(par_, type.dtype, address(frame, value), type.elements());
}

}  // namespace gangway
