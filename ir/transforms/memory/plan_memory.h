// Static memory for a local function: which buffer each value lives in, from liveness.
//
// Values that alias (reshape, barrier) share storage. Results with an in-place parameter live in
// its buffer, other results in buffers of their own. Everything else, scratchpads included, shares
// one arena: offsets come from a best-fit search over live intervals, largest first, so that the
// plan is deterministic.
//
// Invariant: two values that are live at the same node never overlap; plan_memory_test checks it on
// random graphs.
// Cost: O(values * live values).
// Threads: pure.
#pragma once

#include <cstdint>
#include <functional>
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

struct MemoryPlan {
  std::vector<MemorySlot> slots;        // By ValueId.
  std::vector<int64_t> scratch_offset;  // By NodeId: arena offset of its scratchpad, or -1.
  int64_t arena_bytes = 0;
};

// Bytes of scratchpad a node's kernel needs.
using ScratchBytes = std::function<int64_t(const Function&, NodeId)>;

// On a device whose collectives run beside later nodes, the operands of one are kept until its
// result is read, or kKeptCollectives more have begun: if their bytes were reused at once, the next
// node would have to wait for the collective.
inline constexpr size_t kKeptCollectives = 4;
enum class Collectives : uint8_t { kInOrder, kBeside };

MemoryPlan plan_memory(const LocalFunction& local, const ScratchBytes& scratch_bytes,
                       Collectives collectives = Collectives::kInOrder);

}  // namespace gangway
