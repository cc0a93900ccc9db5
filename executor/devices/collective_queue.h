// CollectiveQueue: the collectives that one call has begun in one group of devices, and that
// overlap with later steps. They end in their order; at most one of them has been begun on the
// group (Collective), the others wait for it.
//
// Threads: the device's. Ownership: keeps the lists of tensors; the memory that they point to is
// the call's.
// Cost: keeps its capacity, so that a run allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/collectives/collective_call.h"

namespace gangway {

class CollectiveQueue {
 public:
  struct Item {
    CollectiveCall call;  // Its tensors are `tensors`.
    std::vector<CollectiveTensor> tensors;
    uint32_t step = 0;
    bool begun = false;    // It has been begun on the group.
    bool met = false;      // All members have begun it, and only modelled time is left.
    int64_t bytes = 0;     // Limit of the bytes that it moves.
    int64_t begun_ns = 0;  // For a timeline.
    int64_t end_ns = 0;    // On a modelled device: when it is done; 0: it is done.
    bool waited = false;   // The device's timer knows that the device waits for it.
    bool is_gap = false;   // It is a placeholder for a collective that has been passed over.
  };

  size_t size() const { return size_; }
  // Index 0 is the oldest.
  Item& at(size_t index) { return items_[(first_ + index) % items_.size()]; }
  const Item& at(size_t index) const { return items_[(first_ + index) % items_.size()]; }

  // Adds the newest, which the caller fills in.
  Item& push() {
    if (size_ == items_.size()) grow();
    ++size_;
    Item& item = at(size_ - 1);
    item.begun = item.met = item.waited = item.is_gap = false;
    item.end_ns = 0;
    return item;
  }
  void pop() {
    first_ = (first_ + 1) % items_.size();
    --size_;
  }
  void clear() { size_ = 0; }

 private:
  void grow() {
    std::vector<Item> larger;
    larger.reserve(2 * items_.size() + 1);
    for (size_t i = 0; i < size_; ++i) larger.push_back(std::move(at(i)));
    larger.resize(larger.capacity());
    items_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Item> items_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace gangway
