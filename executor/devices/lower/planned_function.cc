#include "executor/devices/lower/planned_function.h"

#include <utility>

#include "executor/devices/lower/masked_values.h"

namespace gangway {

PlannedFunction::PlannedFunction(LocalFunction local)
    : local_(std::move(local)), masked_(masked_values(*local_.function)) {}

CompiledFunction::StepText PlannedFunction::describe_step(uint32_t step) const {
  if (step >= function().nodes.size()) return {};
  const Node& node = function().nodes[step];
  return {cat(to_string(node.op), " of ", to_string(function().types[node.first_result])),
          where(function(), step), row(node.op).meets};
}

void PlannedFunction::plan(const std::vector<int64_t>& scratch_bytes, Collectives collectives) {
  memory_ = plan_memory(
      local_, [&](const Function&, NodeId id) { return scratch_bytes[id]; }, collectives);
}

PlannedFunction::PlannedStep PlannedFunction::step_of(NodeId id) {
  const Node& node = function().nodes[id];
  PlannedStep step;
  if (row(node.op).meets) {
    step.kind = StepKind::kCollective;
    step.met = &met_.try_emplace(id, NodeView{function(), id}).first->second;
    step.collective = add_need(node.attrs.text("axes"), step.met->bytes(), step.met->kind(),
                               where(function(), id));
  } else if (node.op == Op::timed) {
    step.kind = StepKind::kTimed;
    step.duration_ns = node.attrs.integer("microseconds") * 1000;
  }
  return step;
}

uint32_t PlannedFunction::arena_base() const {
  return static_cast<uint32_t>(function().parameters.size() + function().results.size());
}

Place PlannedFunction::place_of(ValueId value) const {
  const MemorySlot& slot = memory_.slots[value];
  const auto parameters = static_cast<uint32_t>(function().parameters.size());
  switch (slot.kind) {
    case MemorySlot::Kind::kParameter: return {slot.index, slot.offset};
    case MemorySlot::Kind::kResult: return {parameters + slot.index, slot.offset};
    case MemorySlot::Kind::kArena: break;
  }
  return {arena_base(), slot.offset};
}

Place PlannedFunction::scratch_of(NodeId id) const {
  return {arena_base(), std::max<int64_t>(0, memory_.scratch_offset[id])};
}

std::byte* PlannedFunction::address(const CallFrame& frame, ValueId value) const {
  const Place place = place_of(value);
  return frame.bases[place.base] + place.offset;
}

void PlannedFunction::begin_collective(const PlannedStep& step, CallFrame& frame) const {
  const CollectiveCall call =
      step.met->at(frame.bucket, [&](ValueId value) { return address(frame, value); });
  frame.collectives[step.collective]->begin(call, frame.poisoned);
  frame.begun = true;
  frame.resume_at_ns = 0;
}

std::vector<uint32_t> PlannedFunction::section_steps() const {
  std::vector<uint32_t> steps;
  steps.reserve(local_.sections.size());
  for (const LocalFunction::Section& section : local_.sections) steps.push_back(section.begin);
  return steps;
}

bool PlannedFunction::has_collective(uint32_t begin, uint32_t end) const {
  const std::vector<Node>& nodes = function().nodes;
  return std::any_of(nodes.begin() + begin, nodes.begin() + end,
                     [](const Node& node) { return row(node.op).meets; });
}

Hold PlannedFunction::hold_of(const Collective& collective, const Turn& turn) {
  const bool holds = turn.device.collectives_hold() && collective.all_here_began();
  return holds ? Hold::kOthers : Hold::kNothing;
}

Progress PlannedFunction::wait_to_resume(CallFrame& frame, Turn& turn) {
  // The turn's clock was read before this step, perhaps long before.
  turn.now_ns = turn.device.now_ns();
  if (turn.now_ns < frame.resume_at_ns) {
    frame.holds = Hold::kAll;
    turn.wake_by(frame.resume_at_ns);
    return Progress::kPending;
  }
  frame.holds = Hold::kNothing;
  frame.begun = false;
  return Progress::kDone;
}

}  // namespace gangway
