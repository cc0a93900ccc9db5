// Static memory for a local function: which buffer each value lives in, from liveness.
//
// Values that alias (reshape, barrier) share storage. Results with an in-place parameter live in
// its buffer, other results in buffers of their own. Everything else, scratchpads included, shares
// one arena: offsets come from a best-fit search over live intervals, largest first, so that the
// plan is deterministic.
//
// Collectives overlap later nodes (join_plan.h): a collective's operands and results are kept until
// its result is read, or, if it writes no more than it reads, until kKeptCollectives more have
// begun. If its bytes were used again at once, the next node would have to wait for it. If a
// repeated body neither reads the result nor begins that many more, the buffers are kept all
// through the body, since the collective continues during the next iteration, which has the same
// arena.
//
// Invariant: two values that are live at the same node never overlap; plan_memory_test checks it on
// random graphs.
// Cost: O(values * live values).
// Threads: pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

struct MemorySlot {
  enum class Kind : uint8_t { kParameter, kResult, kArena } kind = Kind::kArena;
  uint32_t index = 0;  // kParameter, kResult: which one.
  int64_t offset = 0;  // kArena: bytes from its begin, aligned to kArenaAlignment.
  bool operator==(const MemorySlot&) const = default;
};
inline constexpr int64_t kArenaAlignment = 256;

// A use of the arena from node `first` to node `last`, inclusive.
struct ArenaUse {
  // Stands for all values that alias it; kNone: the scratchpad of node `first`.
  ValueId value = kNone;
  int64_t bytes = 0;
  NodeId first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<MemorySlot> slots;        // Indexed by ValueId.
  std::vector<int64_t> scratch_offset;  // Indexed by NodeId: arena offset of its scratchpad, or -1.
  int64_t arena_bytes = 0;
  std::vector<ArenaUse> uses;  // For charts of the arena.
};

// A function or one of its bodies with its plan. The arena of a body lies at the start of the
// scratchpad of the node that runs it.
struct PlannedPart {
  const Function* function = nullptr;
  const MemoryPlan* plan = nullptr;
};

// Bytes of scratchpad a node's kernel needs.
using ScratchBytes = std::function<int64_t(const Function&, NodeId)>;

inline constexpr size_t kKeptCollectives = 4;

// How the body of a scan is repeated: the first `carries` of its results become its parameters.
struct Repeated {
  size_t carries = 0;
};

// `repeated`: set for a body whose collectives may go on in the next iteration. `together`: the
// operands and results of these nodes are kept until the last of them.
MemoryPlan plan_memory(const LocalFunction& local, const ScratchBytes& scratch_bytes,
                       std::optional<Repeated> repeated = {},
                       const std::vector<Together>& together = {});

}  // namespace gangway
