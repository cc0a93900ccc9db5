#include "executor/devices/cpu/cpu_function.h"

#include <algorithm>

#include "executor/devices/lower/masked_values.h"
#include "executor/kernels/reduce.h"
#include "ir/op_table/op.h"

namespace gangway {
namespace {

Reduction reduction_of(const Node& node) {
  const std::string& name = node.attrs.text("reduction");
  return name == "max" ? Reduction::kMax : name == "min" ? Reduction::kMin : Reduction::kSum;
}

Cost cost_of(const Function& function, const Node& node) {
  std::vector<Type> inputs;
  inputs.reserve(node.inputs.size());
  for (ValueId input : node.inputs) inputs.push_back(function.types[input]);
  const OpRow& facts = row(node.op);
  return facts.cost == nullptr ? Cost{}
                               : facts.cost({node.op, inputs, node.attrs, node.body.get()});
}

int64_t aligned(int64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace

CpuFunction::CpuFunction(const LocalFunction& local, Parallel& par, const StepTimer* timer)
    : local_(local), par_(par), timer_(timer) {
  const Function& function = *local_.function;
  std::vector<cpu::Lowered> lowered(function.nodes.size());
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Op op = function.nodes[id].op;
    if (op == Op::all_reduce || op == Op::timed) continue;
    lowered[id] = cpu::lower({{function, id}, par.threads()});
  }
  memory_ =
      plan_memory(local_, [&](const Function&, NodeId id) { return lowered[id].scratch_bytes; });
  for (NodeId id = 0; id < function.nodes.size(); ++id) add_step(id, lowered);
  masked_ = masked_values(function);
}

cpu::Operand CpuFunction::operand(ValueId value) const {
  const MemorySlot& slot = memory_.slots[value];
  const auto parameters = static_cast<uint32_t>(local_.function->parameters.size());
  const auto results = static_cast<uint32_t>(local_.function->results.size());
  switch (slot.kind) {
    case MemorySlot::Kind::kParameter: return {slot.index, slot.offset};
    case MemorySlot::Kind::kResult: return {parameters + slot.index, slot.offset};
    case MemorySlot::Kind::kArena: break;
  }
  return {parameters + results, slot.offset};
}

void CpuFunction::add_step(NodeId id, std::vector<cpu::Lowered>& lowered) {
  const Function& function = *local_.function;
  const Node& node = function.nodes[id];
  Step step{.first_operand = static_cast<uint32_t>(operands_.size()),
            .inputs = static_cast<uint32_t>(node.inputs.size()),
            .results = node.results,
            .kernel = std::move(lowered[id].kernel)};
  int64_t bytes = 0;
  for (ValueId input : node.inputs) {
    operands_.push_back(operand(input));
    bytes += aligned(function.types[input].bytes());
  }
  for (uint32_t r = 0; r < node.results; ++r) operands_.push_back(operand(node.first_result + r));
  const auto arena = static_cast<uint32_t>(function.parameters.size() + function.results.size());
  step.scratch = {arena, std::max<int64_t>(0, memory_.scratch_offset[id])};
  if (node.op == Op::all_reduce) {
    step.kind = StepKind::kAllReduce;
    step.collective = add_need(node.attrs.text("axes"), bytes);
    step.reduction = reduction_of(node);
    step.duration_ns = bytes;  // Turned into time once the group's size is known.
  } else if (node.op == Op::timed) {
    step.kind = StepKind::kTimed;
    step.duration_ns = node.attrs.integer("microseconds") * 1000;
  } else if (timer_ != nullptr) {
    const Cost cost = cost_of(function, node);
    step.duration_ns = timer_->step_ns(cost.flops, cost.bytes);
  }
  steps_.push_back(std::move(step));
}

Progress CpuFunction::advance(CallFrame& frame, Turn& turn) const {
  while (frame.step < frame.end) {
    const Step& step = steps_[frame.step];
    if (step.kind == StepKind::kKernel && timer_ == nullptr && !frame.check) {
      if (!frame.poisoned) run_traced(step, frame, turn);
    } else if (step.kind == StepKind::kAllReduce) {
      if (advance_all_reduce(step, frame, turn) == Progress::kPending) return Progress::kPending;
    } else if (advance_timed(step, frame, turn) == Progress::kPending) {
      return Progress::kPending;
    }
    ++frame.step;
  }
  return Progress::kDone;
}

void CpuFunction::run_kernel(const Step& step, CallFrame& frame) const {
  const cpu::Operand* operands = operands_.data() + step.first_operand;
  step.kernel({par_, frame.bases.data(), operands, operands + step.inputs, step.scratch,
               frame.mesh_device});
}

// On a timeline a kernel is a span of its own, named as its op.
void CpuFunction::run_traced(const Step& step, CallFrame& frame, Turn& turn) const {
  internal::TraceBuffer* row = turn.device.trace_row;
  if (row == nullptr) return run_kernel(step, frame);
  const int64_t begin_ns = turn.device.now_ns();
  run_kernel(step, frame);
  const char* name = to_string(local_.function->nodes[frame.step].op).data();  // Of a literal.
  row->record({name, begin_ns, turn.device.now_ns(), 0, frame.step});
}

// Kernels of modelled or checked runs, and `timed`: the step takes a given time, during which the
// device is busy.
Progress CpuFunction::advance_timed(const Step& step, CallFrame& frame, Turn& turn) const {
  const NodeId id = frame.step;
  if (!frame.begun) {
    if (frame.poisoned) return Progress::kDone;
    // In place, inputs are gone afterwards: look at them first.
    const bool looking = frame.check && frame.culprit == kNone && inputs_finite(frame, id);
    if (step.kind == StepKind::kKernel) {
      run_kernel(step, frame);
    } else {
      const cpu::Operand* place = operands_.data() + step.first_operand;
      const Node& node = local_.function->nodes[id];
      std::byte* from = frame.bases[place[0].base] + place[0].offset;
      std::byte* to = frame.bases[place[1].base] + place[1].offset;
      if (from != to) turn.device.copy(to, from, local_.function->types[node.first_result].bytes());
    }
    if (looking) check_results(frame, id);
    if (step.duration_ns == 0) return Progress::kDone;
    frame.begun = true;
    frame.resume_at_ns = turn.now_ns + step.duration_ns;
  }
  // The turn's clock was read before this step, perhaps long before.
  turn.now_ns = turn.device.now_ns();
  if (turn.now_ns < frame.resume_at_ns) {
    turn.wake_by(frame.resume_at_ns);
    return Progress::kPending;
  }
  frame.begun = false;
  return Progress::kDone;
}

Progress CpuFunction::advance_all_reduce(const Step& step, CallFrame& frame, Turn& turn) const {
  Collective& collective = *frame.collectives[step.collective];
  const NodeId id = frame.step;
  if (!frame.begun) {
    frame.bucket.clear();
    const cpu::Operand* place = operands_.data() + step.first_operand;
    const Node& node = local_.function->nodes[id];
    for (uint32_t i = 0; i < step.inputs; ++i) {
      const Type& type = local_.function->types[node.inputs[i]];
      const cpu::Operand &in = place[i], &out = place[step.inputs + i];
      frame.bucket.push_back({frame.bases[in.base] + in.offset, frame.bases[out.base] + out.offset,
                              type.elements(), type.dtype});
    }
    collective.begin_all_reduce(frame.bucket, step.reduction, frame.poisoned);
    frame.begun = true;
    frame.resume_at_ns = 0;
  }
  if (frame.resume_at_ns == 0) {
    const bool looking = frame.check && frame.culprit == kNone && inputs_finite(frame, id);
    if (collective.advance() == Progress::kPending) return Progress::kPending;
    if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
    if (looking && !frame.poisoned) check_results(frame, id);
    frame.resume_at_ns = 1;
    if (timer_ != nullptr) {
      frame.resume_at_ns =
          turn.device.now_ns() +
          timer_->collective_ns(static_cast<double>(step.duration_ns), collective.size());
    }
  }
  turn.now_ns = turn.device.now_ns();
  if (turn.now_ns < frame.resume_at_ns) {
    turn.wake_by(frame.resume_at_ns);
    return Progress::kPending;
  }
  frame.begun = false;
  return Progress::kDone;
}

bool CpuFunction::finite(const CallFrame& frame, ValueId value) const {
  const Type& type = local_.function->types[value];
  if (!is_float(type.dtype)) return true;
  const cpu::Operand place = operand(value);
  return all_finite(par_, type.dtype, frame.bases[place.base] + place.offset, type.elements());
}

bool CpuFunction::inputs_finite(const CallFrame& frame, NodeId id) const {
  const Node& node = local_.function->nodes[id];
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return masked_[input] || finite(frame, input); });
}

void CpuFunction::check_results(CallFrame& frame, NodeId id) const {
  const Node& node = local_.function->nodes[id];
  for (uint32_t r = 0; r < node.results; ++r) {
    const ValueId value = node.first_result + r;
    if (!masked_[value] && !finite(frame, value)) frame.culprit = id;
  }
}

}  // namespace gangway
