#include "executor/devices/cpu/cpu_function.h"

#include <algorithm>
#include <map>

#include "executor/devices/cpu/overlapped_collectives.h"
#include "executor/kernels/reduce.h"
#include "runtime/base/error.h"

namespace gangway {

CpuFunction::CpuFunction(const LocalFunction& local, Parallel& par, StepTimer* timer,
                         const TrustedFiles* trusted)
    : PlannedFunction(local), par_(par), timer_(timer) {
  std::vector<std::vector<cpu::Kernel>> kernels(steps().parts());
  std::map<const Function*, std::vector<int64_t>> scratch;
  for (uint32_t p = 0; p < steps().parts(); ++p) {
    const Function& of = steps().function(p);
    kernels[p].resize(of.nodes.size());
    std::vector<int64_t>& bytes = scratch[&of];
    bytes.assign(of.nodes.size(), 0);
    for (NodeId id = 0; id < of.nodes.size(); ++id) {
      const Node& node = of.nodes[id];
      const OpRow& facts = row(node.op);
      if (facts.meets || facts.busy_ns != nullptr || steps().body_of(node) != kNone) continue;
      cpu::Lowered lowered = cpu::lower({{of, id}, par.threads(), trusted});
      kernels[p][id] = std::move(lowered.kernel);
      bytes[id] = lowered.scratch_bytes;
    }
  }
  plan([&](const Function& of, NodeId id) { return scratch.at(&of)[id]; }, Streams::kByGroup);
  for (uint32_t p = 0; p < steps().parts(); ++p) add_part(p, std::move(kernels[p]));
}

void CpuFunction::add_part(uint32_t part, std::vector<cpu::Kernel> kernels) {
  const Function& of = steps().function(part);
  first_command_.push_back(static_cast<uint32_t>(steps_.size()));
  for (NodeId id = 0; id < of.nodes.size(); ++id) {
    const bool runs_body = steps().body_of(of.nodes[id]) != kNone;
    add_step(runs_body ? body_step(part, id) : kernel_step(part, id, std::move(kernels[id])),
             this->part(part).joins.before[id]);
  }
  if (part + 1 < steps().parts())
    add_step({{.kind = StepKind::kEndOfBody}}, this->part(part).joins.behind);
}

void CpuFunction::add_step(Step step, const std::vector<Join>& joins) {
  step.first_join = static_cast<uint32_t>(joins_.size());
  step.joins = static_cast<uint32_t>(joins.size());
  joins_.insert(joins_.end(), joins.begin(), joins.end());
  steps_.push_back(std::move(step));
}

CpuFunction::Step CpuFunction::kernel_step(uint32_t part, NodeId id, cpu::Kernel kernel) {
  const Function& of = steps().function(part);
  const Addresses& addresses = this->part(part).addresses;
  const Node& node = of.nodes[id];
  Step step{{step_of(part, id)},
            static_cast<uint32_t>(operands_.size()),
            static_cast<uint32_t>(node.inputs.size()),
            std::move(kernel),
            addresses.scratch(id)};
  for (ValueId input : node.inputs) operands_.push_back(addresses.of(input));
  for (uint32_t r = 0; r < node.results; ++r)
    operands_.push_back(addresses.of(node.first_result + r));
  if (step.kind == StepKind::kKernel && timer_ != nullptr)
    step.duration_ns = timer_->kernel_ns(of, id);
  return step;
}

CpuFunction::Step CpuFunction::body_step(uint32_t part, NodeId id) {
  const Node& node = steps().function(part).nodes[id];
  Step step{{.kind = StepKind::kEnterBody, .part = &this->part(part), .node = id}};
  step.loop = static_cast<uint32_t>(loops_.size());
  loops_.push_back({loop_of(part, id), first_command_[steps().body_of(node)]});
  return step;
}

Progress CpuFunction::advance(CallFrame& frame, Turn& turn) const {
  // A call begins, or the caller has set the step.
  const uint32_t now = frame.step;
  const bool begins = now == 0 && !frame.begun;
  if (begins) OverlappedCollectives(*this, frame, turn, timer_).drop();
  if (begins || now != frame.at.step) go_to(frame, now);
  uint32_t command = frame.at.command;
  frame.at.step = kNone;  // A kernel may throw on the way.
  Progress progress = Progress::kDone;
  while (frame.step < frame.end) {
    const Step& step = steps_[command];
    if (frame.overlapped_count > 0 && advance_overlapped(step, frame, turn) == Progress::kPending) {
      progress = Progress::kPending;
      break;
    }
    // The joins before it were done as before any step: later steps rely on that.
    if (step.ahead && is_in_last_iteration(frame)) {
      if (step.kind == StepKind::kCollective)
        OverlappedCollectives(*this, frame, turn, timer_).pass_over(step.collective);
      ++frame.step;
      ++command;
      continue;
    }
    if (step.kind == StepKind::kKernel && timer_ == nullptr && !frame.check) {
      if (!frame.poisoned) run_traced(step, frame, turn);
      turn.timed_until_ns = 0;
    } else if (step.kind == StepKind::kEnterBody) {
      enter(frame, command, 0);
      command = loops_[step.loop].first_command;
      continue;
    } else if (step.kind == StepKind::kEndOfBody) {
      command = next_iteration(frame);
      continue;
    } else if (advance_step(step, frame, turn) == Progress::kPending) {
      progress = Progress::kPending;
      break;
    }
    ++frame.step;
    ++command;
  }
  frame.at.step = frame.step;
  frame.at.command = command;
  const bool ends = frame.end == commit_step() || frame.end == step_count();
  if (frame.overlapped_count > 0 && ends && progress == Progress::kDone) return join(frame, turn);
  return progress;
}

Progress CpuFunction::advance_step(const Step& step, CallFrame& frame, Turn& turn) const {
  return step.kind == StepKind::kCollective ? advance_collective(step, frame, turn)
                                            : advance_timed(step, frame, turn);
}

// Enters the bodies around the step, from the function down.
void CpuFunction::go_to(CallFrame& frame, uint32_t step) const {
  if (frame.bases.size() < bases()) frame.bases.resize(bases());
  frame.at = {.step = step, .command = first_command_.back()};
  if (step == 0) return;
  if (step == step_count()) {
    frame.at.command += static_cast<uint32_t>(function().nodes.size());
    return;
  }
  for (const StepMap::Level& level : steps().path(step)) {
    frame.at.command += level.node;
    const Step& found = steps_[frame.at.command];
    if (found.kind != StepKind::kEnterBody) break;
    loops_[found.loop].addresses.bind(frame.bases.data(), 0);
    enter(frame, frame.at.command, level.iteration);
    frame.at.command = loops_[found.loop].first_command;
  }
}

void CpuFunction::enter(CallFrame& frame, uint32_t command, uint32_t iteration) const {
  GW_DASSERT(frame.at.depth < frame.at.loops.size());
  frame.at.loops[frame.at.depth++] = {command, iteration};
  loops_[steps_[command].loop].addresses.bind(frame.bases.data(), iteration);
}

// Command at which the innermost loop continues: its begin, or the one behind it.
uint32_t CpuFunction::next_iteration(CallFrame& frame) const {
  CallFrame::Loop& now = frame.at.loops[frame.at.depth - 1];
  const Loop& loop = loops_[steps_[now.command].loop];
  if (++now.iteration < loop.addresses.length()) {
    loop.addresses.bind(frame.bases.data(), now.iteration);
    return loop.first_command;
  }
  --frame.at.depth;
  return now.command + 1;
}

bool CpuFunction::is_in_last_iteration(const CallFrame& frame) const {
  const CallFrame::Loop& now = frame.at.loops[frame.at.depth - 1];
  return loops_[steps_[now.command].loop].addresses.is_last(now.iteration);
}

void CpuFunction::run_kernel(const Step& step, CallFrame& frame) const {
  const Address* operands = operands_.data() + step.first_operand;
  step.kernel({par_, frame.bases.data(), operands, operands + step.inputs, step.scratch,
               frame.mesh_device});
}

// On a timeline a kernel is a span of its own, named as its op.
void CpuFunction::run_traced(const Step& step, CallFrame& frame, Turn& turn) const {
  if (turn.stream.trace.row == nullptr) return run_kernel(step, frame);
  const int64_t begin_ns = turn.stream.now_ns();
  run_kernel(step, frame);
  record_span(step, frame, turn, begin_ns, turn.stream.now_ns());
}

void CpuFunction::record_span(const Step& step, const CallFrame& frame, Turn& turn,
                              int64_t begin_ns, int64_t end_ns) {
  internal::TraceBuffer* row = turn.stream.trace.row;
  if (row == nullptr) return;
  const char* name = to_string(step.in_graph().op).data();  // Points to a literal.
  row->record({.name = name,
               .begin_ns = begin_ns,
               .end_ns = end_ns,
               .run = frame.run,
               .node = frame.plan_node,
               .step = frame.step});
}

// Kernels of modelled or checked runs, and `timed`: the step takes a given time, during which the
// device is busy. On a real device a timed step begins where the one before it ended, as on a card
// that has its next kernel queued: how late the thread woke is not the device's time.
Progress CpuFunction::advance_timed(const Step& step, CallFrame& frame, Turn& turn) const {
  if (!frame.begun) {
    if (frame.poisoned) return Progress::kDone;
    // An in-place kernel overwrites its inputs, so they are checked first.
    const bool looking = looks_at(frame, step);
    if (step.kind == StepKind::kKernel) {
      run_kernel(step, frame);
      turn.timed_until_ns = 0;
    } else {
      const Node& node = step.in_graph();
      const std::byte* from = address(frame, *step.part, node.inputs[0]);
      std::byte* to = address(frame, *step.part, node.first_result);
      if (from != to)
        turn.stream.copy(to, from, step.part->function->types[node.first_result].bytes());
    }
    if (looking) check_results(frame, step);
    if (step.duration_ns == 0) return Progress::kDone;
    frame.begun = true;
    frame.resume_at_ns = timer_ == nullptr
                             ? device_time_ns(turn) + step.duration_ns
                             : turn.now_ns + timer_->begin_step(frame, turn, step.duration_ns);
  }
  const int64_t end_ns = frame.resume_at_ns;
  if (wait_to_resume(frame, turn) == Progress::kPending) return Progress::kPending;
  if (timer_ == nullptr) turn.timed_until_ns = end_ns;
  if (timer_ != nullptr) record_span(step, frame, turn, end_ns - step.duration_ns, end_ns);
  return Progress::kDone;
}

// In a checked run the result is checked before the next step begins.
Progress CpuFunction::advance_collective(const Step& step, CallFrame& frame, Turn& turn) const {
  OverlappedCollectives overlapped(*this, frame, turn, timer_);
  if (!frame.begun) {
    CollectiveQueue::Item& item = overlapped.begin(step.collective);
    item.call = call_of(step, frame, item.tensors);
    item.bytes = step.met->bytes();
    frame.begun = true;
  }
  const bool looking = looks_at(frame, step);
  overlapped.poll();
  turn.timed_until_ns = 0;
  if (frame.check && overlapped.join_all() == Progress::kPending) return Progress::kPending;
  if (looking && !frame.poisoned) check_results(frame, step);
  frame.begun = false;
  return Progress::kDone;
}

// Polls the overlapping collectives and waits for those that this step needs.
Progress CpuFunction::advance_overlapped(const Step& step, CallFrame& frame, Turn& turn) const {
  OverlappedCollectives overlapped(*this, frame, turn, timer_);
  overlapped.poll();
  if (step.kind == StepKind::kEndOfBody && is_in_last_iteration(frame))
    return overlapped.join_all();
  return overlapped.join({joins_.data() + step.first_join, step.joins});
}

Progress CpuFunction::join(CallFrame& frame, Turn& turn) const {
  OverlappedCollectives overlapped(*this, frame, turn, timer_);
  overlapped.poll();
  return overlapped.join_all();
}

// Whether the step would be blamed if its results are not finite: no step is blamed yet, and its
// inputs are finite.
bool CpuFunction::looks_at(const CallFrame& frame, const Step& step) const {
  return frame.check && frame.origin_step == kNone &&
         inputs_finite(*step.part, step.node,
                       [&](ValueId value) { return finite(frame, *step.part, value); });
}

void CpuFunction::check_results(CallFrame& frame, const Step& step) const {
  if (!results_finite(*step.part, step.node,
                      [&](ValueId value) { return finite(frame, *step.part, value); }))
    frame.origin_step = frame.step;
}

bool CpuFunction::finite(const CallFrame& frame, const Part& part, ValueId value) const {
  const Type& type = part.function->types[value];
  return !is_float(type.dtype) ||
         all_finite(par_, type.dtype, address(frame, part, value), type.elements());
}

}  // namespace gangway
