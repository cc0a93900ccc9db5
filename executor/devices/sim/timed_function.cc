#include "executor/devices/sim/timed_function.h"

#include <algorithm>

namespace gangway {

TimedFunction::TimedFunction(const LocalFunction& local, StepTimer& timer)
    : PlannedFunction(local), timer_(timer) {
  const auto nodes = static_cast<NodeId>(function().nodes.size());
  plan(std::vector<int64_t>(nodes, 0), Collectives::kInOrder);
  cost_before_ns_.assign(nodes + 1, 0);
  for (NodeId id = 0; id < nodes; ++id) {
    PlannedStep step = step_of(id);
    if (step.kind == StepKind::kKernel) step.duration_ns = timer_.kernel_ns(function(), id);
    cost_before_ns_[id + 1] = cost_before_ns_[id] + step.duration_ns;
    steps_.push_back(step);
  }
  next_collective_.assign(nodes, nodes);
  uint32_t next = nodes;
  for (NodeId id = nodes; id-- > 0;) {
    if (steps_[id].kind == StepKind::kCollective) next = id;
    next_collective_[id] = next;
  }
}

uint32_t TimedFunction::kernels_end(const CallFrame& frame) const {
  return std::min(frame.end, next_collective_[frame.step]);
}

Progress TimedFunction::advance(CallFrame& frame, Turn& turn) const {
  while (frame.step < frame.end) {
    if (steps_[frame.step].kind == StepKind::kCollective) {
      if (advance_collective(frame, turn) == Progress::kPending) return Progress::kPending;
      ++frame.step;
      continue;
    }
    if (!frame.begun) begin_kernels(frame, turn);
    if (wait_to_resume(frame, turn) == Progress::kPending) return Progress::kPending;
    frame.step = kernels_end(frame);
  }
  return Progress::kDone;
}

void TimedFunction::begin_kernels(CallFrame& frame, Turn& turn) const {
  const int64_t cost_ns = cost_before_ns_[kernels_end(frame)] - cost_before_ns_[frame.step];
  turn.now_ns = turn.device.now_ns();
  frame.begun = true;
  frame.resume_at_ns = turn.now_ns;
  if (!frame.poisoned && cost_ns > 0) frame.resume_at_ns += timer_.begin_step(frame, turn, cost_ns);
}

// The bucket is empty: its members only meet, with their flags.
Progress TimedFunction::advance_collective(CallFrame& frame, Turn& turn) const {
  const PlannedStep& step = steps_[frame.step];
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
