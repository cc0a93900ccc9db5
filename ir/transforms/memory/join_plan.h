// JoinPlan: where a function waits for the collectives that run beside its steps.
//
// A collective runs beside the steps behind it, until one of them reads what it writes, or writes
// what it reads or writes: its operands and results, and whatever else memory planning has put into
// the same bytes since. All are joined at the commit point and behind the last node.
//
// What the body of a scan has begun goes on in the next iteration, where nothing in it touches the
// same bytes: rows of stacked results are others then, and a carry is read from where it was
// written. Behind that iteration's last node it is joined, and behind the last iteration all are.
//
// Collectives of one *stream* end in their order: a card has one stream, elsewhere each group of
// devices is one. So a step waits for a number of the oldest of a stream; the rest, the newest
// `beside`, go on. One goes behind the others of its stream without waiting here.
//
// Invariant: join_plan_test holds it to every pair of steps.
// Threads: pure.
// Cost: nodes * operands of the collectives that are under way, at most kBesideMax; once per
// function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

inline constexpr size_t kBesideMax = 64;  // Collectives under way; one more waits for the oldest.

struct Join {
  uint32_t stream = 0;
  uint32_t beside = 0;  // How many of the stream's newest collectives need not be done.
  friend bool operator==(const Join&, const Join&) = default;
};

struct JoinPlan {
  std::vector<std::vector<Join>> before;  // By NodeId: what is waited for before the node.
  std::vector<Join> behind;               // Behind the last node; of a loop before it begins anew.
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
