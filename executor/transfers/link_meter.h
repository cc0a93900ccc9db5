// LinkMeter: how many bytes one device has moved, by the class of the link that they went over.
//
// Payload is counted once, by the device that does the copy: the sender of a transfer or in a ring
// of cards, the reader in a collective over shared memory or on one card, the device itself in a
// client's put or get. Counters, stamps and the words of an exchange are not counted.
// docs/collectives.md has the formulas.
//
// Threads: add() on the device's own thread; read() anywhere.
// Cost: add() is one load and one store.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "ir/plan/islands.h"

namespace gangway {

// Number of peers that a device reaches over each class of link, by LinkClass.
using PeerCounts = std::array<uint32_t, kLinkClasses.size()>;

class alignas(64) LinkMeter {
 public:
  void add(LinkClass link, int64_t bytes) {
    std::atomic<uint64_t>& moved = moved_[static_cast<size_t>(link)];
    moved.store(moved.load(std::memory_order_relaxed) + static_cast<uint64_t>(bytes),
                std::memory_order_relaxed);
  }
  uint64_t read(LinkClass link) const {
    return moved_[static_cast<size_t>(link)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kLinkClasses.size()> moved_{};
};

}  // namespace gangway
