#include "executor/devices/sim/timed_function.h"

#include <algorithm>

namespace gangway {

TimedFunction::TimedFunction(const LocalFunction& local, StepTimer& timer)
    : PlannedFunction(local, Bodies::kCounted), timer_(timer) {
  plan([](const Function&, NodeId) { return 0; }, Collectives::kInOrder);
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
    if (row(node.op).meets) return 0;
    return node.op == Op::timed ? node.attrs.integer("microseconds") * 1000
                                : timer.kernel_ns(of, id);
  });
}

Progress TimedFunction::advance(CallFrame& frame, Turn& turn) const {
  while (frame.step < frame.end) {
    const uint32_t collective = steps().next_collective(frame.step);
    if (collective == frame.step) {
      if (planned_step(collective).ahead && steps().is_passed_over(collective)) {
        ++frame.step;
        continue;
      }
      if (advance_collective(frame, turn) == Progress::kPending) return Progress::kPending;
      ++frame.step;
      continue;
    }
    const uint32_t end = std::min(frame.end, collective);
    if (!frame.begun) begin_kernels(frame, turn, end);
    if (wait_to_resume(frame, turn) == Progress::kPending) return Progress::kPending;
    frame.step = end;
  }
  return Progress::kDone;
}

const PlannedFunction::PlannedStep& TimedFunction::planned_step(uint32_t step) const {
  const StepMap::Leaf leaf = steps().leaf(step);
  return planned_[leaf.part][leaf.node];
}

// Those before step `end`.
void TimedFunction::begin_kernels(CallFrame& frame, Turn& turn, uint32_t end) const {
  const int64_t cost_ns = costs_ns_->before(end) - costs_ns_->before(frame.step);
  turn.now_ns = turn.device.now_ns();
  frame.begun = true;
  frame.resume_at_ns = turn.now_ns;
  if (!frame.poisoned && cost_ns > 0) frame.resume_at_ns += timer_.begin_step(frame, turn, cost_ns);
}

// The bucket is empty: its members only meet, with their flags.
Progress TimedFunction::advance_collective(CallFrame& frame, Turn& turn) const {
  const PlannedStep& step = planned_step(frame.step);
  Collective& collective = *frame.collectives[step.collective];
  if (!frame.begun) {
    collective.begin_exchange(0, frame.poisoned);
    frame.begun = true;
    frame.resume_at_ns = 0;
  }
  if (frame.resume_at_ns == 0) {
    if (collective.advance() == Progress::kPending) {
      frame.holds = hold_of(collective, turn);
      return Progress::kPending;
    }
    if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
    const int64_t cost_ns =
        timer_.collective_ns(step.met->kind(), static_cast<double>(step.met->bytes()),
                             collective.peers()) /
        collective.ranks_here();
    turn.now_ns = turn.device.now_ns();
    frame.resume_at_ns = turn.now_ns + timer_.begin_collective(frame, turn, cost_ns);
  }
  return wait_to_resume(frame, turn);
}

}  // namespace gangway
