// TransferChannel: one device sends one value to one device of another slice, once a run.
//
//   receiver's memory:  released | slot 0 | slot 1 | ...     one slot for each run in flight
//
// The sender writes the payload straight into the receiver's slot, stamps it with the number of the
// run and rings; the receiver's kernels read it there. The receiver gives the slot back when its
// run has ended, and only then does the sender write it again. A poisoned sender sends a flag in
// place of data, so that the receiver never waits for it. A small payload lies in the cache line of
// its stamp, so the receiver gets it with the stamp that it polls.
//
// Two discrete devices of one process do the same in the receiver's own memory (device_link.h): the
// stamp then says that the copy was started, and the receiver's card waits for it.
//
// Invariant: send n of a plan is run n of that plan; it lies in slot n % slots on both sides.
// Threads: one side each, on its device's thread.
// Ownership: memory and bells are the plan's.
// Cost: one copy of the payload, and one ring each way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/transfers/device_link.h"
#include "executor/work/bell.h"
#include "executor/work/work.h"
#include "ir/plan/islands.h"
#include "runtime/base/align.h"

namespace gangway {

struct alignas(64) TransferStamp {
  std::atomic<uint64_t> sent{0};  // One more than the run whose payload it is.
  uint64_t poisoned = 0;          // Published by `sent`.
  std::byte small[48] = {};
};

class TransferSlots {
 public:
  TransferSlots() = default;
  TransferSlots(std::byte* data, int64_t payload_bytes, uint32_t slots)
      : released_(reinterpret_cast<std::atomic<uint64_t>*>(data)),
        slots_data_(data + kLine),
        stride_(stride(payload_bytes)),
        slots_(slots) {}

  static int64_t bytes(int64_t payload_bytes, uint32_t slots) {
    return kLine + stride(payload_bytes) * slots;
  }

  // Sender. `released`: what it saw last; the receiver's line is read only when that is not enough.
  bool may_send(uint64_t run, uint64_t& released) const {
    if (run >= released + slots_) released = released_->load(std::memory_order_acquire);
    return run < released + slots_;
  }
  void sent(uint64_t run, bool poisoned) {
    TransferStamp& stamp = this->stamp(run);
    stamp.poisoned = poisoned ? 1 : 0;
    stamp.sent.store(run + 1, std::memory_order_release);
  }
  // Receiver: the payload is there once the word has reached run + 1.
  const std::atomic<uint64_t>& arrival(uint64_t run) const { return stamp(run).sent; }
  bool poisoned(uint64_t run) const { return stamp(run).poisoned != 0; }
  void release(uint64_t run) { released_->store(run + 1, std::memory_order_release); }

  uint32_t slot(uint64_t run) const { return static_cast<uint32_t>(run % slots_); }
  std::byte* payload(uint64_t run) const {
    TransferStamp& stamp = this->stamp(run);
    return stride_ == kLine ? stamp.small : reinterpret_cast<std::byte*>(&stamp + 1);
  }

 private:
  static constexpr int64_t kLine = sizeof(TransferStamp);
  static int64_t stride(int64_t payload_bytes) {
    const bool small = payload_bytes <= static_cast<int64_t>(sizeof(TransferStamp::small));
    return small ? kLine : kLine + align_up(payload_bytes, kLine);
  }
  TransferStamp& stamp(uint64_t run) const {
    return *reinterpret_cast<TransferStamp*>(slots_data_ +
                                             stride_ * static_cast<int64_t>(run % slots_));
  }

  std::atomic<uint64_t>* released_ = nullptr;
  std::byte* slots_data_ = nullptr;
  int64_t stride_ = 0;
  uint32_t slots_ = 1;
};

struct TransferChannel {
  TransferSlots slots;
  // Of devices of one process that need no host memory: the payloads lie in the receiver's, and
  // `slots` only stamps them.
  std::shared_ptr<DeviceLink> link;
  std::byte* memory = nullptr;  // With a link: the first slot; `stride` bytes each.
  int64_t stride = 0;
  LinkClass link_class = LinkClass::kHost;
  Bell peer;                      // Sender: the receiver's bell; receiver: the sender's.
  mutable uint64_t released = 0;  // Sender, its device's thread: runs known to be released.
};

}  // namespace gangway
