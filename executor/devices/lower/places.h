// Places: where the tensors of a function lie in the bases of a call, by its memory plan: the
// parameters, then the results, then one arena.
//
// Threads: immutable.
// Ownership: keeps a pointer to the function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "executor/devices/lower/place.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

class Places {
 public:
  Places() = default;
  Places(const Function& function, MemoryPlan plan)
      : function_(&function), plan_(std::move(plan)) {}

  const MemoryPlan& plan() const { return plan_; }
  int64_t arena_bytes() const { return plan_.arena_bytes; }
  uint32_t bases() const { return arena_base() + 1; }

  Place of(ValueId value) const {
    const MemorySlot& slot = plan_.slots[value];
    switch (slot.kind) {
      case MemorySlot::Kind::kParameter: return {slot.index, slot.offset};
      case MemorySlot::Kind::kResult: return {parameters() + slot.index, slot.offset};
      case MemorySlot::Kind::kArena: break;
    }
    return {arena_base(), slot.offset};
  }
  Place scratch(NodeId id) const {
    return {arena_base(), std::max<int64_t>(0, plan_.scratch_offset[id])};
  }

 private:
  uint32_t parameters() const { return static_cast<uint32_t>(function_->parameters.size()); }
  uint32_t arena_base() const {
    return parameters() + static_cast<uint32_t>(function_->results.size());
  }

  const Function* function_ = nullptr;
  MemoryPlan plan_;
};

}  // namespace gangway
