#include "executor/devices/lower/planned_function.h"

#include <utility>

#include "ir/plan/committed_values.h"

namespace gangway {

PlannedFunction::PlannedFunction(LocalFunction local)
    : local_(std::move(local)),
      steps_(*local_.function),
      collectives_(steps_),
      masked_(masked_values(*local_.function)),
      committed_(committed_values(local_)) {
  for (uint32_t p = 0; p < steps_.parts(); ++p) {
    const Function& function = steps_.function(p);
    parts_.push_back({.function = &function, .masked = &masked_.at(&function)});
  }
  find_loops();
}

void PlannedFunction::find_loops() {
  std::vector<bool> is_named(parts_.size(), false);
  for (const Part& part : parts_) {
    for (const Node& node : part.function->nodes) {
      const uint32_t body = steps_.body_of(node);
      if (body == kNone) continue;
      std::optional<Repeated>& repeated = parts_[body].repeated;
      const size_t carries = ScanLayout(node).carries;  // None of a call.
      const bool fits = row(node.op).repeats_body &&
                        (!is_named[body] || (repeated && repeated->carries == carries));
      repeated = fits ? std::optional(Repeated{carries}) : std::nullopt;
      is_named[body] = true;
    }
  }
}

CompiledFunction::StepText PlannedFunction::describe_step(uint32_t step) const {
  if (step >= step_count()) return {};
  const StepMap::Leaf leaf = steps_.leaf(step);
  const Function& function = steps_.function(leaf.part);
  const Node& node = function.nodes[leaf.node];
  const Type& type = function.types[node.first_result];
  return {cat(to_string(node.op), " of ", to_string(type)), steps_.where(step), row(node.op).meets};
}

void PlannedFunction::check_committed(const CallFrame& frame, DeviceStream& stream,
                                      uint32_t* flag) const {
  for (const ValueId value : committed_) {
    const Type& type = function().types[value];
    stream.check_finite(type.dtype, address(frame, main(), value), type.elements(), flag);
  }
}

std::vector<PlannedPart> PlannedFunction::memory_plans() const {
  std::vector<PlannedPart> plans;
  plans.reserve(parts_.size());
  for (const Part& part : parts_) plans.push_back({part.function, &part.addresses.plan()});
  return plans;
}

// The scratchpad of a node that runs a body depends on the body's plan, so bodies come first; their
// bases come behind the function's.
void PlannedFunction::plan(const ScratchBytes& scratch_bytes, Streams streams, int64_t alignment,
                           const std::vector<Together>& together) {
  alignment_ = alignment;
  bases_ = static_cast<uint32_t>(function().parameters.size() + function().results.size()) + 1;
  for (Part& part : parts_) {
    const bool is_main = part.function == &function();
    const LocalFunction body{.function = {std::shared_ptr<void>(), part.function},
                             .commit_begin = static_cast<NodeId>(part.function->nodes.size())};
    const auto scratch = [&](const Function& of, NodeId id) {
      const uint32_t inner = steps_.body_of(of.nodes[id]);
      if (inner == kNone) return scratch_bytes(of, id);
      return BodyLoop::scratch_bytes(of.nodes[id], parts_[inner].addresses, alignment_);
    };
    const LocalFunction& planned = is_main ? local_ : body;
    // A card joins collectives of an iteration at its end.
    const std::optional<Repeated> repeated =
        streams == Streams::kByGroup ? part.repeated : std::nullopt;
    MemoryPlan memory =
        plan_memory(planned, scratch, repeated, is_main ? together : std::vector<Together>());
    part.addresses = Addresses(*part.function, std::move(memory), is_main ? 0 : bases_);
    if (!is_main) bases_ = part.addresses.end_base();
    find_collectives(part);
    const auto stream_of = [&](NodeId id) {
      return streams == Streams::kOne ? uint32_t{0} : part.met.at(id).collective;
    };
    part.joins = plan_joins(planned, part.addresses.plan(), scratch, stream_of, repeated);
  }
}

void PlannedFunction::find_collectives(Part& part) {
  const Function& of = *part.function;
  for (NodeId id = 0; id < of.nodes.size(); ++id) {
    if (!row(of.nodes[id].op).meets) continue;
    const MetNode node(NodeView{of, id});
    const uint32_t need =
        add_need(of.nodes[id].attrs.text("axes"), node.bytes(), node.kind(), where(of, id));
    part.met.emplace(id, Part::Met{node, need});
  }
}

PlannedFunction::PlannedStep PlannedFunction::step_of(uint32_t part, NodeId id) const {
  const Part& of = parts_[part];
  const Node& node = of.function->nodes[id];
  PlannedStep step{.part = &of, .node = id, .ahead = steps_.is_ahead(part, id)};
  const OpRow& facts = row(node.op);
  if (facts.meets) {
    step.kind = StepKind::kCollective;
    const Part::Met& met = of.met.at(id);
    step.met = &met.node;
    step.collective = met.collective;
  } else if (facts.busy_ns != nullptr) {
    step.kind = StepKind::kTimed;
    step.duration_ns = facts.busy_ns(node.attrs);
  }
  return step;
}

BodyLoop PlannedFunction::loop_of(uint32_t part, NodeId id) const {
  const Function& of = *parts_[part].function;
  return {id, of, parts_[part].addresses, parts_[steps_.body_of(of.nodes[id])].addresses,
          alignment_};
}

std::vector<uint32_t> PlannedFunction::section_steps() const {
  std::vector<uint32_t> steps;
  steps.reserve(local_.sections.size());
  for (const LocalFunction::Section& section : local_.sections) steps.push_back(section.begin);
  return steps;
}

bool PlannedFunction::has_collective(uint32_t begin, uint32_t end) const {
  return begin < end && collectives_.next(begin) < end;
}

Progress PlannedFunction::wait_to_resume(CallFrame& frame, Turn& turn) {
  // The turn's clock was read before this step, perhaps long before.
  turn.now_ns = turn.stream.now_ns();
  if (turn.now_ns < frame.resume_at_ns) {
    frame.blocks = Blocks::kAll;
    turn.wake_by(frame.resume_at_ns);
    return Progress::kPending;
  }
  frame.blocks = Blocks::kNothing;
  frame.begun = false;
  return Progress::kDone;
}

}  // namespace gangway
