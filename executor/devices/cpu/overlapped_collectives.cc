#include "executor/devices/cpu/overlapped_collectives.h"

#include <algorithm>

namespace gangway {

CollectiveQueue::Item& OverlappedCollectives::begin(uint32_t stream) {
  if (frame_.overlapped.size() < frame_.collectives.size())
    frame_.overlapped.resize(frame_.collectives.size());
  ++frame_.overlapped_count;
  CollectiveQueue::Item& item = frame_.overlapped[stream].push();
  item.step = frame_.step;
  item.tensors.clear();
  return item;
}

void OverlappedCollectives::pass_over(uint32_t stream) {
  if (stream >= frame_.overlapped.size() || frame_.overlapped[stream].size() == 0) return;
  begin(stream).is_gap = true;
}

void OverlappedCollectives::poll() {
  if (none()) return;
  if (timer_ != nullptr) turn_.now_ns = turn_.stream.now_ns();
  for (uint32_t stream = 0; stream < frame_.overlapped.size(); ++stream) {
    if (frame_.overlapped[stream].size() > 0) poll(stream, turn_.now_ns);
  }
}

void OverlappedCollectives::poll(uint32_t stream, int64_t now_ns) {
  CollectiveQueue& queue = frame_.overlapped[stream];
  Collective& collective = *frame_.collectives[stream];
  for (size_t i = 0; i < queue.size(); ++i) {
    CollectiveQueue::Item& item = queue.at(i);
    if (item.met) continue;
    if (item.is_gap) {
      item.met = true;
      item.end_ns = i > 0 ? queue.at(i - 1).end_ns : 0;
      continue;
    }
    if (!item.begun && item.tensors.empty()) {
      collective.begin_exchange(0, frame_.poisoned);
    } else if (!item.begun) {
      collective.begin(item.call, frame_.poisoned);
    }
    if (!item.begun && turn_.stream.trace.collectives_row != nullptr)
      item.begun_ns = turn_.stream.now_ns();
    item.begun = true;
    if (collective.advance() == Progress::kPending) break;
    meet(stream, item, now_ns);
  }
  while (queue.size() > 0 && queue.at(0).met && queue.at(0).end_ns <= now_ns) {
    queue.pop();
    --frame_.overlapped_count;
  }
}

void OverlappedCollectives::meet(uint32_t stream, CollectiveQueue::Item& item, int64_t now_ns) {
  const Collective& collective = *frame_.collectives[stream];
  item.met = true;
  function_.take_outcome(collective, item.step, frame_);
  if (timer_ == nullptr) return record(item, turn_.stream.now_ns());
  const int64_t cost_ns =
      timer_->collective_ns(item.call.kind, static_cast<double>(item.bytes), collective.peers()) /
      collective.ranks_here();
  item.end_ns = frame_.links_free_ns = std::max(now_ns, frame_.links_free_ns) + cost_ns;
  record(item, item.end_ns);
}

// The span begins when the item was begun on its group. On a modelled device, a collective of the
// same group that ends later uses the links after the one before.
void OverlappedCollectives::record(const CollectiveQueue::Item& item, int64_t end_ns) {
  internal::TraceBuffer* row = turn_.stream.trace.collectives_row;
  if (row == nullptr) return;
  const int64_t begin_ns = std::max(item.begun_ns, turn_.stream.trace.collective_recorded_ns);
  if (end_ns < begin_ns) return;
  turn_.stream.trace.collective_recorded_ns = end_ns;
  const char* name = to_string(item.call.kind).data();  // Points to a literal.
  row->record({.name = name,
               .begin_ns = begin_ns,
               .end_ns = end_ns,
               .run = frame_.run,
               .node = frame_.plan_node,
               .step = item.step,
               .mark = TraceMark::kMeeting});
}

void OverlappedCollectives::drop() {
  if (none()) return;
  for (CollectiveQueue& queue : frame_.overlapped) queue.clear();
  frame_.overlapped_count = 0;
  frame_.awaited = 0;
}

Progress OverlappedCollectives::join(std::span<const Join> joins) {
  for (const Join& join : joins) {
    if (join.stream >= frame_.overlapped.size()) continue;
    CollectiveQueue& queue = frame_.overlapped[join.stream];
    if (queue.size() <= join.overlapped) continue;
    size_t at = queue.size() - join.overlapped - 1;
    while (queue.at(at).is_gap) --at;  // The oldest is no gap.
    return wait_for(join.stream, queue.at(at));
  }
  frame_.awaited = 0;
  frame_.blocks = Blocks::kNothing;
  return Progress::kDone;
}

Progress OverlappedCollectives::join_awaited() {
  if (frame_.awaited == 0) return Progress::kDone;
  for (uint32_t stream = 0; stream < frame_.overlapped.size(); ++stream) {
    CollectiveQueue& queue = frame_.overlapped[stream];
    for (size_t i = 0; i < queue.size(); ++i) {
      CollectiveQueue::Item& item = queue.at(i);
      if (item.step + 1 == frame_.awaited) return wait_for(stream, item);
    }
  }
  return Progress::kDone;
}

Progress OverlappedCollectives::join_all() {
  for (uint32_t stream = 0; stream < frame_.overlapped.size(); ++stream) {
    const Join all{.stream = stream};
    if (join({&all, 1}) == Progress::kPending) return Progress::kPending;
  }
  return Progress::kDone;
}

Progress OverlappedCollectives::wait_for(uint32_t stream, CollectiveQueue::Item& item) {
  frame_.awaited = item.step + 1;
  turn_.timed_until_ns = 0;
  if (item.met) {
    if (!item.waited) timer_->begin_collective(frame_, turn_, item.end_ns - turn_.now_ns);
    item.waited = true;
    frame_.blocks = Blocks::kAll;
    turn_.wake_by(item.end_ns);
    return Progress::kPending;
  }
  const Collective& collective = *frame_.collectives[stream];
  const bool blocks = turn_.stream.collectives_block() && collective.all_here_began();
  frame_.blocks = blocks ? Blocks::kOthers : Blocks::kNothing;
  return Progress::kPending;
}

}  // namespace gangway
