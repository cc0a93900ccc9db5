// HostRendezvous: the rendezvous of the members of a group on one host: memory of that host, which
// all of them read and no peer writes.
//
// Each member has a slot, which only it writes. Counters hold the number of the latest
// collective and only grow. The values in a slot have two copies, used by the parity of that
// number: a member that is one collective ahead never overwrites a value that a slower one still
// reads. The member that raises a counter last rings the others.
//
// Threads: counters are atomic; they publish the rest.
// Ownership: shared by the members.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/collectives/hosts/bucket.h"
#include "executor/work/bell.h"

namespace gangway {

// The values that all members learn in an exchange.
struct Agreed {
  uint64_t least = ~uint64_t{0}, most = 0;
  bool poisoned = false;

  void join(const Agreed& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
    poisoned |= other.poisoned;
  }
};

struct alignas(64) MemberSlot {
  std::atomic<uint64_t> published{0};  // My word and my tensors are set.
  uint64_t words[2] = {0, 0};
  bool poisoned[2] = {false, false};
  const Bucket* bucket = nullptr;                // Valid until I have raised `reduced`.
  const CollectiveCall* call = nullptr;          // The same, for a kind that has no bucket.
  alignas(64) std::atomic<uint64_t> reduced{0};  // My part of the result is in all tensors.
  bool failed[2] = {false, false};               // Published by `reduced`: a member was poisoned.
};

class HostRendezvous {
 public:
  // `small_bytes`: size of the largest bucket that is copied to be read.
  HostRendezvous(std::vector<Bell> bells, int64_t small_bytes)
      : size_(static_cast<uint32_t>(bells.size())),
        bells_(std::move(bells)),
        slots_(std::make_unique<MemberSlot[]>(size_)),
        small_stride_(align_up(small_bytes, kLineBytes)),
        small_(bytes(size_, small_bytes)) {}

  // Memory that a rendezvous needs, besides a constant amount.
  static size_t bytes(uint32_t members, int64_t small_bytes) {
    return static_cast<size_t>((2 * members + 1) * align_up(small_bytes, kLineBytes));
  }

  uint32_t size() const { return size_; }
  MemberSlot& slot(uint32_t member) { return slots_[member]; }
  // Where a member copies a small bucket for the others.
  std::byte* small(uint32_t member, uint64_t sequence) {
    return small_.data() + small_stride_ * (2 * member + (sequence & 1));
  }

  bool all_at(std::atomic<uint64_t> MemberSlot::* counter, uint64_t value) const {
    for (uint32_t m = 0; m < size_; ++m) {
      if ((slots_[m].*counter).load(std::memory_order_seq_cst) < value) return false;
    }
    return true;
  }
  // These stores and loads have one order, so the last member sees the counters of all others.
  void tell(uint32_t member, std::atomic<uint64_t> MemberSlot::* counter, uint64_t value) {
    if (size_ == 1) return (slots_[member].*counter).store(value, std::memory_order_release);
    (slots_[member].*counter).store(value, std::memory_order_seq_cst);
    if (all_at(counter, value)) ring_others(member);
  }
  void ring_others(uint32_t member) const {
    for (uint32_t m = 0; m < size_; ++m) {
      if (m != member) bells_[m].ring();
    }
  }

  // The result of member 0's exchange with the other hosts, for the collective of that number.
  struct alignas(64) Answer {
    std::atomic<uint64_t> given{0};
    Agreed agreed;
  } answer;
  std::byte* small_answer() { return small_.data() + small_stride_ * (2 * size_); }

 private:
  const uint32_t size_;
  const std::vector<Bell> bells_;
  const std::unique_ptr<MemberSlot[]> slots_;
  const int64_t small_stride_;
  std::vector<std::byte> small_;
};

}  // namespace gangway
