// Addresses: the addresses of a function's tensors in the bases of a call, by its memory plan: the
// parameters, then the results, then one arena. Bases of a body come behind those of the function
// that is called.
//
// Threads: immutable.
// Ownership: keeps a pointer to the function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "executor/devices/lower/address.h"
#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

class Addresses {
 public:
  Addresses() = default;
  Addresses(const Function& function, MemoryPlan plan, uint32_t first_base = 0)
      : function_(&function), plan_(std::move(plan)), first_base_(first_base) {}

  const MemoryPlan& plan() const { return plan_; }
  int64_t arena_bytes() const { return plan_.arena_bytes; }
  uint32_t first_base() const { return first_base_; }
  uint32_t end_base() const { return arena_base() + 1; }

  Address of(ValueId value) const {
    const MemorySlot& slot = plan_.slots[value];
    switch (slot.kind) {
      case MemorySlot::Kind::kParameter: return {first_base_ + slot.index, slot.offset};
      case MemorySlot::Kind::kResult: return {results_base() + slot.index, slot.offset};
      case MemorySlot::Kind::kArena: break;
    }
    return {arena_base(), slot.offset};
  }
  Address scratch(NodeId id) const {
    return {arena_base(), std::max<int64_t>(0, plan_.scratch_offset[id])};
  }

 private:
  uint32_t results_base() const {
    return first_base_ + static_cast<uint32_t>(function_->parameters.size());
  }
  uint32_t arena_base() const {
    return results_base() + static_cast<uint32_t>(function_->results.size());
  }

  const Function* function_ = nullptr;
  MemoryPlan plan_;
  uint32_t first_base_ = 0;
};

}  // namespace gangway
