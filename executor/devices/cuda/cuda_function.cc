#include "executor/devices/cuda/cuda_function.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "executor/devices/cuda/lower/many_tensors.h"
#include "executor/devices/cuda/lower/product_fusion.h"
#include "executor/devices/cuda/lower/view_fusion.h"

namespace gangway {
namespace {

// Limit of a graph's steps: a capture takes 10 us for each.
constexpr uint32_t kGraphStepsMax = uint32_t{1} << 12;

// All are of one stream.
std::optional<uint32_t> joins_to(const std::vector<Join>& joins) {
  return joins.empty() ? std::nullopt : std::optional(joins[0].overlapped);
}

// "step: %14 dot", "step: %20 fusion of mul, exp, add"
std::string label_of(const Function& function, const Node& node) {
  std::string label = cat(function.name, ": %", node.first_result, " ", to_string(node.op));
  const char* before = " of ";
  if (node.body == nullptr) return label;
  if (node.attrs.find(cuda::kProductAttr) != nullptr) {
    label += cat(before, to_string(Op::dot));
    before = ", ";
  }
  for (const Node& inner : node.body->nodes) {
    if (inner.op == Op::constant || inner.op == Op::broadcast) continue;
    label += cat(before, to_string(inner.op));
    before = ", ";
  }
  return label;
}

}  // namespace

CudaFunction::CudaFunction(const LocalFunction& given, std::shared_ptr<cuda::Gpu> gpu)
    : PlannedFunction(given.unfused ? given : cuda::fuse_views(cuda::fuse_products(given))),
      gpu_(std::move(gpu)),
      numerics_(given.numerics),
      together_(cuda::find_together(local(), steps())) {
  auto keeps = std::make_shared<Keeps>();
  std::vector<Lowered> lowered;
  std::map<const Function*, uint32_t> index;
  for (uint32_t p = 0; p < steps().parts(); ++p) {
    index.emplace(&steps().function(p), p);
    lowered.push_back(lower_part(p, *keeps));
  }
  lower_all(lowered.back(), *keeps);
  std::vector<std::vector<cuda::Command>> of_all = std::move(lowered.back().of_all);
  owner_ = {gpu_->next_serial(), alive_, std::move(keeps)};
  plan([&](const Function& of, NodeId id) { return lowered[index.at(&of)].scratch[id]; },
       Streams::kOne, kDeviceAlignment, together_);
  for (uint32_t p = 0; p < steps().parts(); ++p) add_part(p, std::move(lowered[p]));
  add_together(std::move(of_all));
}

CudaFunction::Lowered CudaFunction::lower_part(uint32_t part, Keeps& keeps) const {
  const Function& of = steps().function(part);
  Lowered lowered{.commands = std::vector<std::vector<cuda::Command>>(of.nodes.size()),
                  .scratch = std::vector<int64_t>(of.nodes.size(), 0)};
  for (NodeId id = 0; id < of.nodes.size(); ++id) {
    cuda::Lowering call(*gpu_, of, id, numerics_);
    // If devices can't do the collective, the device refuses the group.
    const OpRow& facts = row(call.op());
    if (facts.meets || steps().body_of(call.node()) != kNone) continue;
    facts.busy_ns != nullptr ? call.copy(call.read(0), call.write(0)) : cuda::lower(call);
    lowered.commands[id] = std::move(call.commands);
    lowered.scratch[id] = call.scratch_bytes;
    std::ranges::move(call.keeps, std::back_inserter(keeps));
  }
  return lowered;
}

// Nodes that run together have commands of their own too, for checked runs.
void CudaFunction::lower_all(Lowered& lowered, Keeps& keeps) const {
  for (const Together& nodes : together_) {
    const NodeId last = nodes.back();
    cuda::Lowering call(*gpu_, function(), last, numerics_);
    cuda::lower_together(call, nodes);
    lowered.of_all.push_back(std::move(call.commands));
    lowered.scratch[last] = std::max(lowered.scratch[last], call.scratch_bytes);
    std::ranges::move(call.keeps, std::back_inserter(keeps));
  }
}

void CudaFunction::add_together(std::vector<std::vector<cuda::Command>> of_all) {
  const uint32_t main = steps().parts() - 1;
  for (size_t t = 0; t < together_.size(); ++t) {
    for (const NodeId id : together_[t])
      steps_[first_command_[main] + id].role = Step::Role::kWaits;
    const NodeId last = together_[t].back();
    for (cuda::Command& command : of_all[t]) place(command, main, last);
    Step& step = steps_[first_command_[main] + last];
    step.role = Step::Role::kRunsAll;
    step.of_all = std::move(of_all[t]);
  }
}

void CudaFunction::add_part(uint32_t part, Lowered lowered) {
  const Function& of = steps().function(part);
  const bool is_main = part + 1 == steps().parts();
  const auto nodes = static_cast<NodeId>(of.nodes.size());
  const JoinPlan& joins = this->part(part).joins;
  first_command_.push_back(static_cast<uint32_t>(steps_.size()));
  for (NodeId id = 0; id < nodes; ++id) {
    const Node& node = of.nodes[id];
    const uint32_t inner = steps().body_of(node);
    for (cuda::Command& command : lowered.commands[id]) place(command, part, id);
    Step step{{.kind = StepKind::kEnterBody, .part = &this->part(part), .node = id}};
    step.commands = std::move(lowered.commands[id]);
    step.label = label_of(of, node);
    step.joins_to = joins_to(joins.before[id]);
    if (inner == kNone) {
      static_cast<PlannedStep&>(step) = step_of(part, id);
    } else {
      step.loop = static_cast<uint32_t>(loops_.size());
      loops_.push_back({PlannedFunction::loop_of(part, id), first_command_[inner]});
    }
    steps_.push_back(std::move(step));
    flags_ = std::max(flags_, static_cast<uint32_t>(node.inputs.size()) + node.results);
  }
  if (is_main) return;
  Step end{{.kind = StepKind::kEndOfBody}};
  end.label = of.name;
  end.joins_to = joins_to(joins.behind);
  steps_.push_back(std::move(end));
}

void CudaFunction::place(cuda::Command& command, uint32_t part, NodeId id) const {
  const Addresses& addresses = this->part(part).addresses;
  for (cuda::Argument& argument : command.arguments) {
    if (!argument.is_tensor) continue;
    const NodeId of = argument.ref.node == kNone ? id : argument.ref.node;
    const Node& node = steps().function(part).nodes[of];
    switch (argument.ref.of) {
      case cuda::TensorRef::kInput:
        argument.address = addresses.of(node.inputs[argument.ref.index]);
        break;
      case cuda::TensorRef::kResult:
        argument.address = addresses.of(node.first_result + argument.ref.index);
        break;
      case cuda::TensorRef::kScratch: argument.address = addresses.scratch(id); break;
    }
    argument.address.offset += argument.ref.offset;
  }
}

// Enters the bodies around the step, from the function down.
void CudaFunction::go_to(CallFrame& frame, CudaStream& card, uint32_t step) const {
  if (frame.bases.size() < bases()) frame.bases.resize(bases());
  frame.at = {.step = step, .command = first_command_.back()};
  if (step == 0) return;
  card.join_collectives();
  if (step == step_count()) {
    frame.at.command += static_cast<uint32_t>(function().nodes.size());
    return;
  }
  for (const StepMap::Level& level : steps().path(step)) {
    frame.at.command += level.node;
    if (steps_[frame.at.command].kind != StepKind::kEnterBody) break;
    enter_or_leave(frame.at);
    CallFrame::Loop& loop = frame.at.loops[frame.at.depth - 1];
    loop_of(loop).addresses.bind(frame.bases.data(), 0);
    loop.iteration = level.iteration;
    const bool issues = can_issue(frame, card);
    const cuda::Status status =
        begin_iteration(frame, issues ? card.compute() : cuda::StreamHandle());
    if (!status.ok()) fail(frame, card, status);
  }
}

// Enters a body at its node, or, behind the body's last step, begins its next iteration or leaves
// it.
void CudaFunction::enter_or_leave(Position& at) const {
  if (steps_[at.command].kind == StepKind::kEnterBody) {
    GW_DASSERT(at.depth < at.loops.size());
    at.loops[at.depth++] = {at.command, 0};
    at.command = loop_of(at.loops[at.depth - 1]).first_command;
    return;
  }
  CallFrame::Loop& now = at.loops[at.depth - 1];
  if (++now.iteration < loop_of(now).addresses.length()) {
    at.command = loop_of(now).first_command;
  } else {
    --at.depth;
    at.command = now.command + 1;
  }
}

bool CudaFunction::passes_over(const Step& step, const Position& at) const {
  if (!step.ahead) return false;
  const CallFrame::Loop& loop = at.loops[at.depth - 1];
  return loop_of(loop).addresses.is_last(loop.iteration);
}

// The same, and sets bases and copies rows. Without a stream nothing is copied, here and below.
cuda::Status CudaFunction::enter_or_leave(CallFrame& frame, cuda::StreamHandle stream) const {
  const bool ends = steps_[frame.at.command].kind == StepKind::kEndOfBody;
  const uint32_t depth = frame.at.depth;
  cuda::Status status = ends ? end_iteration(frame, stream) : cuda::Status{};
  enter_or_leave(frame.at);
  const bool begins = !ends || frame.at.depth == depth;
  if (!begins) return status;
  cuda::Status begun = begin_iteration(frame, status.ok() ? stream : cuda::StreamHandle());
  return status.ok() ? begun : status;
}

void CudaFunction::enter_or_leave(CallFrame& frame, CudaStream& card) const {
  const bool issues = can_issue(frame, card);
  const cuda::Status status = enter_or_leave(frame, issues ? card.compute() : cuda::StreamHandle());
  if (!status.ok()) fail(frame, card, status);
}

cuda::Status CudaFunction::begin_iteration(CallFrame& frame, cuda::StreamHandle stream) const {
  const CallFrame::Loop& at = frame.at.loops[frame.at.depth - 1];
  const BodyLoop& addresses = loop_of(at).addresses;
  addresses.bind(frame.bases.data(), at.iteration);
  cuda::Status status;
  const auto copy = [&](std::byte* to, const std::byte* from, int64_t bytes) {
    status = gpu_->driver().copy({stream, steps_[at.command].label}, to, from, bytes);
    return status.ok();
  };
  if (stream) addresses.in_copies(frame.bases.data(), at.iteration, copy);
  return status;
}

cuda::Status CudaFunction::end_iteration(CallFrame& frame, cuda::StreamHandle stream) const {
  const CallFrame::Loop& at = frame.at.loops[frame.at.depth - 1];
  cuda::Status status;
  const auto copy = [&](std::byte* to, const std::byte* from, int64_t bytes) {
    status = gpu_->driver().copy({stream, steps_[at.command].label}, to, from, bytes);
    return status.ok();
  };
  if (stream) loop_of(at).addresses.out_copies(frame.bases.data(), at.iteration, copy);
  return status;
}

// Restores the bases at the frame's position, after another walk.
void CudaFunction::bind_again(CallFrame& frame) const {
  for (uint32_t d = 0; d < frame.at.depth; ++d) {
    const BodyLoop& addresses = loop_of(frame.at.loops[d]).addresses;
    addresses.bind(frame.bases.data(), 0);
    addresses.bind(frame.bases.data(), frame.at.loops[d].iteration);
  }
}

Progress CudaFunction::advance(CallFrame& frame, Turn& turn) const {
  auto& card = static_cast<CudaStream&>(turn.stream);
  // A call begins, or somebody has set the step.
  const uint32_t now = frame.step;
  if (now != frame.at.step || (now == 0 && !frame.begun && frame.flags_by == 0))
    go_to(frame, card, now);
  if (advance_steps(frame, turn) == Progress::kPending) return Progress::kPending;
  end_bodies(frame, card);
  frame.flags = nullptr;
  // Collectives go on beside the sections that follow, up to where the join plan waits for them.
  if (frame.end == commit_step() || frame.end == step_count()) card.join_collectives();
  return Progress::kDone;
}

Progress CudaFunction::advance_steps(CallFrame& frame, Turn& turn) const {
  auto& card = static_cast<CudaStream&>(turn.stream);
  while (frame.step < frame.end) {
    const Step& step = steps_[frame.at.command];
    if (step.joins_to.has_value()) card.join(*step.joins_to);
    const bool is_step = step.kind != StepKind::kEnterBody && step.kind != StepKind::kEndOfBody;
    if (!is_step && frame.check) {
      enter_or_leave(frame, card);
      continue;
    }
    if (!is_step || (step.kind == StepKind::kKernel && !frame.check)) {
      advance_commands(frame, card);
      continue;
    }
    if (passes_over(step, frame.at)) {
      // The join plan counts it.
      if (step.kind == StepKind::kCollective) card.end_collective();
    } else {
      const Progress progress =
          frame.check ? advance_checked(step, frame, turn) : advance_step(step, frame, turn);
      if (progress == Progress::kPending) return Progress::kPending;
    }
    ++frame.step;
    ++frame.at.command;
    frame.at.step = frame.step;
  }
  return Progress::kDone;
}

// Copies that an iteration has behind its last step belong to it, and not to the next section.
void CudaFunction::end_bodies(CallFrame& frame, CudaStream& card) const {
  while (frame.at.depth > 0 && steps_[frame.at.command].kind == StepKind::kEndOfBody) {
    const std::optional<uint32_t> joins_to = steps_[frame.at.command].joins_to;
    if (joins_to.has_value()) card.join(*joins_to);
    enter_or_leave(frame, card);
  }
}

Progress CudaFunction::advance_step(const Step& step, CallFrame& frame, Turn& turn) const {
  if (step.kind == StepKind::kCollective) return advance_collective(step, frame);
  if (step.kind == StepKind::kTimed) return advance_timed(step, frame, turn);
  issue(step, frame, static_cast<CudaStream&>(turn.stream));
  return Progress::kDone;
}

bool CudaFunction::can_issue(CallFrame& frame, const CudaStream& card) {
  if (!frame.poisoned && card.lost() != nullptr) {
    frame.error = card.lost();
    frame.poisoned = true;
  }
  return !frame.poisoned;
}

void CudaFunction::issue(const Step& step, CallFrame& frame, CudaStream& card) const {
  if (!can_issue(frame, card)) return;
  const cuda::Status status = issue_on(step, frame, card.compute());
  if (!status.ok()) fail(frame, card, status);
}

cuda::Status CudaFunction::issue_on(const Step& step, const CallFrame& frame,
                                    cuda::StreamHandle stream) const {
  const bool alone = frame.check || step.role == Step::Role::kAlone;
  for (const cuda::Command& command : alone ? step.commands : step.of_all) {
    cuda::Status status =
        command.issue(gpu_->driver(), {stream, step.label}, frame.bases.data(), frame.mesh_device);
    if (!status.ok()) return status;
  }
  return {};
}

// Walks over commands alone, up to the next step that may wait. The first step has waited.
CallFrame::Position CudaFunction::ahead(Position at, uint32_t end) const {
  end = std::min(end, at.step + kGraphStepsMax);
  for (bool first = true; at.step < end; first = false) {
    const Step& step = steps_[at.command];
    if (step.joins_to.has_value() && !first) break;
    if (step.kind == StepKind::kCollective || step.kind == StepKind::kTimed) break;
    if (step.kind == StepKind::kKernel) {
      ++at.step;
      ++at.command;
    } else {
      enter_or_leave(at);
    }
  }
  return at;
}

// Launches from the frame's position. Stops at a failure.
cuda::Status CudaFunction::issue_to(const Position& end, CallFrame& frame,
                                    cuda::StreamHandle stream) const {
  Position& at = frame.at;
  while (at.step != end.step || at.command != end.command) {
    const Step& step = steps_[at.command];
    const bool is_step = step.kind == StepKind::kKernel;
    cuda::Status status;
    if (!is_step) status = enter_or_leave(frame, stream);
    if (is_step && !passes_over(step, at)) status = issue_on(step, frame, stream);
    if (!status.ok()) return status;
    if (!is_step) continue;
    ++at.step;
    ++at.command;
  }
  return {};
}

// Launches the commands as one graph. False: there is none.
bool CudaFunction::replay_to(const Position& end, CallFrame& frame, CudaStream& card) const {
  const Position begin = frame.at;
  const auto place = [](const Position& at) { return uint64_t{at.step} << 32 | at.command; };
  bool walked = false;
  const auto issue_all = [&](cuda::StreamHandle stream) {
    walked = true;
    return issue_to(end, frame, stream);
  };
  const std::span<std::byte* const> bases(frame.bases.data(), main().addresses.end_base());
  cuda::Status status;
  const bool replayed = card.graphs().replay(
      {card.compute(), steps_[begin.command].label},
      {owner_, place(begin), place(end), frame.mesh_device, bases}, issue_all, status);
  if (!replayed && !walked) return false;
  frame.at = replayed ? end : begin;
  bind_again(frame);
  if (!status.ok() && replayed) fail(frame, card, status);
  return replayed;
}

void CudaFunction::advance_commands(CallFrame& frame, CudaStream& card) const {
  const Position end = ahead(frame.at, frame.end);
  const bool issues = can_issue(frame, card);
  if (!issues) {
    frame.at = end;
    bind_again(frame);
  } else if (end.step - frame.at.step < 2 || !replay_to(end, frame, card)) {
    const cuda::Status status = issue_to(end, frame, card.compute());
    frame.step = frame.at.step;
    if (!status.ok()) {
      fail(frame, card, status);
      frame.at = end;
      bind_again(frame);
    }
  }
  frame.step = frame.at.step;
}

void CudaFunction::fail(CallFrame& frame, CudaStream& card, const cuda::Status& status) const {
  auto error = std::make_shared<Error>(*card.failure_of(status));
  if (frame.step < step_count()) error->add_where({.at = steps().where(frame.step)});
  frame.error = std::move(error);
  frame.poisoned = true;
}

// The device is busy for a given time, once all earlier work is done.
Progress CudaFunction::advance_timed(const Step& step, CallFrame& frame, Turn& turn) const {
  auto& card = static_cast<CudaStream&>(turn.stream);
  if (!frame.begun) {
    issue(step, frame, card);
    if (frame.poisoned) return Progress::kDone;
    frame.flags_by = card.mark();
    frame.begun = true;
    frame.resume_at_ns = 0;
  }
  if (frame.resume_at_ns == 0) {
    std::shared_ptr<const Error> failure;
    if (card.reached(frame.flags_by, &failure) == Progress::kPending) return Progress::kPending;
    frame.flags_by = 0;
    if (failure != nullptr) frame.error = std::move(failure);
    frame.resume_at_ns = card.now_ns() + step.duration_ns;
  }
  return wait_to_resume(frame, turn);
}

Progress CudaFunction::advance_collective(const Step& step, CallFrame& frame) const {
  Collective& collective = *frame.collectives[step.collective];
  if (!frame.begun) {
    collective.name(step.label);
    collective.begin(call_of(step, frame, frame.bucket), frame.poisoned);
    frame.begun = true;
  }
  if (collective.advance() == Progress::kPending) return Progress::kPending;
  take_outcome(collective, frame.step, frame);
  frame.begun = false;
  return Progress::kDone;
}

// Runs one step at a time: the card checks the step's inputs and results, and the host waits for
// the findings. Once a step is blamed, or the run failed, steps run without checks.
Progress CudaFunction::advance_checked(const Step& step, CallFrame& frame, Turn& turn) const {
  DeviceStream& card = turn.stream;
  const auto looks = [&] {
    return frame.origin_step == kNone && !frame.poisoned && frame.error == nullptr;
  };
  if (frame.flags_by == 0 || frame.begun) {
    // An in-place step overwrites its inputs, so they are checked first.
    if (!frame.begun && looks()) check_inputs(step, frame, card);
    if (advance_step(step, frame, turn) == Progress::kPending) return Progress::kPending;
    card.join_collectives();
    if (!looks()) return Progress::kDone;
    check_results(step, frame, card);
    frame.flags_by = card.mark();
  }
  std::shared_ptr<const Error> failure;
  if (card.reached(frame.flags_by, &failure) == Progress::kPending) return Progress::kPending;
  frame.flags_by = 0;
  if (failure != nullptr) frame.error = std::move(failure);
  if (looks()) blame(step, frame);
  return Progress::kDone;
}

void CudaFunction::check_inputs(const Step& step, CallFrame& frame, DeviceStream& card) const {
  const auto bytes = static_cast<int64_t>(flags_ * sizeof(uint32_t));
  if (frame.flags == nullptr) frame.flags = gpu_->host_memory(bytes, card.name());
  gpu_->driver().host_access({frame.flags.get(), bytes, cuda::AccessKind::kWrite}, "host");
  std::fill_n(frame.flags.get(), bytes, std::byte{0});
  auto* flag = reinterpret_cast<uint32_t*>(frame.flags.get());
  for (const ValueId input : step.in_graph().inputs) check(step, frame, card, input, flag++);
}

void CudaFunction::check_results(const Step& step, CallFrame& frame, DeviceStream& card) const {
  const Node& node = step.in_graph();
  auto* const flag = reinterpret_cast<uint32_t*>(frame.flags.get()) + node.inputs.size();
  for (uint32_t r = 0; r < node.results; ++r)
    check(step, frame, card, node.first_result + r, flag + r);
}

void CudaFunction::check(const Step& step, const CallFrame& frame, DeviceStream& card,
                         ValueId value, uint32_t* flag) {
  const Type& type = step.part->function->types[value];
  if (is_float(type.dtype))
    card.check_finite(type.dtype, address(frame, *step.part, value), type.elements(), flag);
}

void CudaFunction::blame(const Step& step, CallFrame& frame) const {
  const Node& node = step.in_graph();
  const auto* const flags = reinterpret_cast<const uint32_t*>(frame.flags.get());
  const auto bytes = static_cast<int64_t>(flags_ * sizeof(uint32_t));
  gpu_->driver().host_access({flags, bytes, cuda::AccessKind::kRead}, "host");
  const auto is_finite = [&](ValueId value) {
    const auto input = std::ranges::find(node.inputs, value) - node.inputs.begin();
    const bool is_result = value >= node.first_result && value < node.first_result + node.results;
    return flags[is_result ? node.inputs.size() + value - node.first_result
                           : static_cast<size_t>(input)] == 0;
  };
  if (inputs_finite(*step.part, step.node, is_finite) &&
      !results_finite(*step.part, step.node, is_finite))
    frame.origin_step = frame.step;
}

}  // namespace gangway
