#include "executor/devices/sim/timed_function.h"

#include <algorithm>
#include <cmath>

namespace gangway {

TimedFunction::TimedFunction(const LocalFunction& local, StepTimer& timer)
    : PlannedFunction(local), timer_(timer) {
  plan([](const Function&, NodeId) { return 0; }, Streams::kByGroup);
  planned_.resize(steps().parts());
  for (uint32_t p = 0; p < steps().parts(); ++p) {
    const Function& of = steps().function(p);
    for (NodeId id = 0; id < of.nodes.size(); ++id) {
      const bool runs_body = steps().body_of(of.nodes[id]) != kNone;
      planned_[p].push_back(runs_body ? PlannedStep() : step_of(p, id));
    }
  }
  costs_ns_.emplace(steps(), [&timer](const Function& of, NodeId id) -> int64_t {
    const Node& node = of.nodes[id];
    const OpRow& facts = row(node.op);
    if (facts.meets) return 0;
    return facts.busy_ns != nullptr ? facts.busy_ns(node.attrs) : timer.kernel_ns(of, id);
  });
  const StepMarks collectives(steps());  // For bodies: whether they have any.
  events_.emplace(steps(), [&](uint32_t p, NodeId id) {
    const Function& of = steps().function(p);
    if (row(of.nodes[id].op).meets || !part(p).joins.before[id].empty()) return true;
    // Collectives of an iteration are waited for before the next one, and behind the last.
    if (id == 0) return p + 1 < steps().parts() && collectives.any(p);
    const uint32_t body = steps().body_of(of.nodes[id - 1]);
    return body != kNone && collectives.any(body);
  });
}

Progress TimedFunction::advance(CallFrame& frame, Turn& turn) const {
  OverlappedCollectives overlapped(*this, frame, turn, &timer_);
  if (frame.step == 0 && !frame.begun) overlapped.drop();
  overlapped.poll();
  while (frame.step < frame.end) {
    // The frame may have waited for the last collective that was under way.
    const bool may_wait = !frame.begun && (frame.awaited != 0 || !overlapped.none());
    if (may_wait && (overlapped.join_awaited() == Progress::kPending ||
                     join_at(frame.step, overlapped) == Progress::kPending))
      return Progress::kPending;
    const PlannedStep& step = planned_step(frame.step);
    if (step.ahead && step.kind == StepKind::kCollective && steps().is_passed_over(frame.step)) {
      overlapped.pass_over(step.collective);
      ++frame.step;
      continue;
    }
    if (step.kind == StepKind::kCollective) {
      // The collective has no tensors: its members only meet, with their flags.
      CollectiveQueue::Item& item = overlapped.begin(step.collective);
      item.call.kind = step.met->kind();
      item.bytes = step.met->bytes();
      overlapped.poll();
      ++frame.step;
      continue;
    }
    const uint32_t end = std::min(frame.end, events_->next(frame.step + 1));
    if (!frame.begun) begin_kernels(frame, turn, end);
    if (wait_to_resume(frame, turn) == Progress::kPending) return Progress::kPending;
    frame.step = end;
  }
  const bool ends = frame.end == commit_step() || frame.end == step_count();
  if (ends && !overlapped.none() && join(frame, turn) == Progress::kPending)
    return Progress::kPending;
  // The awaited collective may have ended in poll().
  frame.blocks = Blocks::kNothing;
  frame.awaited = 0;
  return Progress::kDone;
}

Progress TimedFunction::join(CallFrame& frame, Turn& turn) const {
  OverlappedCollectives overlapped(*this, frame, turn, &timer_);
  overlapped.poll();
  return overlapped.join_all();
}

// Waits for the joins before the step: behind the body if one of its iterations has just ended, all
// if a loop is left, and before the nodes that begin with the step.
Progress TimedFunction::join_at(uint32_t step, OverlappedCollectives& overlapped) const {
  if (steps().is_flat()) return overlapped.join(main().joins.before[step]);
  const std::vector<StepMap::Level> now = steps().path(step);
  size_t begun = 0;  // The first level whose node begins.
  if (step > 0) {
    const std::vector<StepMap::Level> before = steps().path(step - 1);
    size_t same = 0;
    while (now[same] == before[same]) ++same;
    const bool next_iteration = now[same].node == before[same].node;
    begun = next_iteration ? same + 1 : same;
    const bool leaves_loop = before.size() - 1 > begun;
    if (leaves_loop) return overlapped.join_all();
    if (next_iteration &&
        overlapped.join(part(before[begun].part).joins.behind) == Progress::kPending)
      return Progress::kPending;
  }
  for (size_t level = begun; level < now.size(); ++level) {
    if (overlapped.join(part(now[level].part).joins.before[now[level].node]) == Progress::kPending)
      return Progress::kPending;
  }
  return Progress::kDone;
}

const PlannedFunction::PlannedStep& TimedFunction::planned_step(uint32_t step) const {
  if (steps().is_flat()) return planned_.back()[step];
  const StepMap::Leaf leaf = steps().leaf(step);
  return planned_[leaf.part][leaf.node];
}

// Begins the kernels before step `end`.
void TimedFunction::begin_kernels(CallFrame& frame, Turn& turn, uint32_t end) const {
  const int64_t cost_ns = costs_ns_->before(end) - costs_ns_->before(frame.step);
  turn.now_ns = turn.stream.now_ns();
  frame.begun = true;
  frame.resume_at_ns = turn.now_ns;
  if (frame.poisoned || cost_ns == 0) return;
  frame.resume_at_ns += timer_.begin_step(frame, turn, cost_ns);
  if (turn.stream.trace.row != nullptr) record_kernels(frame, turn, end, cost_ns);
}

// Records a span for each kernel, one behind the other; or one for all, if they would fill the row.
void TimedFunction::record_kernels(const CallFrame& frame, Turn& turn, uint32_t end,
                                   int64_t cost_ns) const {
  constexpr uint32_t kSpansMax = 4096;
  TraceEvent event{
      .begin_ns = turn.now_ns, .run = frame.run, .node = frame.plan_node, .step = frame.step};
  if (end - frame.step > kSpansMax) {
    event.name = "kernels";
    event.end_ns = frame.resume_at_ns;
    turn.stream.trace.row->record(event);
    return;
  }
  // On a slow host they take longer than they cost.
  const double slowness =
      static_cast<double>(frame.resume_at_ns - turn.now_ns) / static_cast<double>(cost_ns);
  const int64_t first_ns = costs_ns_->before(frame.step);
  for (uint32_t step = frame.step; step < end; ++step) {
    const int64_t so_far_ns = costs_ns_->before(step + 1) - first_ns;
    event.end_ns = turn.now_ns + std::llround(static_cast<double>(so_far_ns) * slowness);
    if (event.end_ns == event.begin_ns) continue;
    const StepMap::Leaf leaf = steps().leaf(step);
    event.name = to_string(steps().function(leaf.part).nodes[leaf.node].op).data();
    event.step = step;
    turn.stream.trace.row->record(event);
    event.begin_ns = event.end_ns;
  }
}

}  // namespace gangway
