// JoinPlan: the points at which a function waits for the collectives that overlap its steps.
//
// A collective overlaps the steps behind it, until one of them reads what it writes, or writes what
// it reads or writes: its operands and results, and whatever else memory planning has put into the
// same bytes since. All collectives are joined at the commit point and behind the last node.
//
// A collective that the body of a scan has begun continues in the next iteration if nothing in it
// touches the same bytes: the next iteration uses other rows of stacked results, and reads a carry
// from where it was written. It is joined behind the last node of that iteration, and all are
// joined behind the last iteration.
//
// Collectives of one *stream* end in their order: a card has one stream, elsewhere each group of
// devices is one. A step therefore waits for a number of the oldest of a stream; the newest
// `overlapped` continue. A collective queues behind the others of its stream without waiting here.
//
// Invariant: join_plan_test holds it to every pair of steps.
// Threads: pure.
// Cost: nodes * operands of the collectives that are under way, at most kOverlappedMax; once per
// function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

// Collectives under way; one more waits for the oldest.
inline constexpr size_t kOverlappedMax = 64;

struct Join {
  uint32_t stream = 0;
  uint32_t overlapped = 0;  // Number of the stream's newest collectives that need not be done.
  friend bool operator==(const Join&, const Join&) = default;
};

struct JoinPlan {
  std::vector<std::vector<Join>> before;  // Indexed by NodeId: the joins before the node.
  std::vector<Join> behind;  // Joins behind the last node, or, for a loop, before it begins anew.
};

// Bytes that a node may touch.
struct Touch {
  MemorySlot at;
  int64_t bytes = 0;
  bool writes = false;
};
std::vector<Touch> touched(const LocalFunction& local, const MemoryPlan& memory,
                           const ScratchBytes& scratch_bytes, NodeId id);

// `scratch_bytes`, `repeated`: as `memory` was planned. `stream_of`: of a node that is a
// collective; null: there is one stream. Whoever runs a repeated body joins all when it leaves the
// loop. Before a step that it passes over it waits as before any other, and a collective that it
// passes over counts as done with those before it.
JoinPlan plan_joins(const LocalFunction& local, const MemoryPlan& memory,
                    const ScratchBytes& scratch_bytes,
                    const std::function<uint32_t(NodeId)>& stream_of = nullptr,
                    std::optional<Repeated> repeated = {});

}  // namespace gangway
