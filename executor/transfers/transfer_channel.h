// TransferChannel: one device sends one value to one device of another slice, once a run.
//
//   receiver's memory:  slot 0 | slot 1 | ...     a stamp and a payload for each run in flight
//   sender's memory:    released                  one more than the last run whose slot is free
//
// The sender writes the payload into the receiver's slot, stamps it with the number of the run and
// rings; the receiver's kernels read it there. When the receiver's run has ended, the receiver
// gives the slot back with a word in the sender's memory, and only then does the sender write it
// again. Each of them thus waits on its own memory (links/host_link.h). A sender whose run failed
// sends a flag in place of data, so that the receiver never waits for it. A small payload lies in
// the cache line of its stamp, so the receiver gets it with the stamp that it polls.
//
// Two discrete devices of one process do the same in the receiver's own memory (device_link.h): the
// stamp then says that the copy was started, and the receiver's card waits for it.
//
// Invariant: send n of a plan is run n of that plan; it lies in slot n % slots on both sides.
// Threads: each side is used on its device's thread.
// Ownership: memory is the plan's.
// Cost: one copy of the payload, and one ring each way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/links/host_link.h"
#include "executor/transfers/device_link.h"
#include "executor/work/work.h"
#include "ir/plan/islands.h"
#include "runtime/base/align.h"

namespace gangway {

struct alignas(64) TransferStamp {
  std::atomic<uint64_t> sent{0};  // TransferSlots::stamped() of the run whose payload it is.
  std::byte small[56] = {};
};

// Offsets in the receiver's inbox.
class TransferSlots {
 public:
  TransferSlots() = default;
  TransferSlots(int64_t payload_bytes, uint32_t slots)
      : payload_bytes_(payload_bytes), slots_(slots) {}

  int64_t bytes() const { return stride() * slots_; }
  int64_t payload_bytes() const { return payload_bytes_; }
  uint32_t slots() const { return slots_; }
  uint32_t slot(uint64_t run) const { return static_cast<uint32_t>(run % slots_); }
  // Offsets from the beginning of the inbox.
  uint64_t stamp(uint64_t run) const { return static_cast<uint64_t>(stride()) * slot(run); }
  uint64_t payload(uint64_t run) const {
    return stamp(run) + (small() ? offsetof(TransferStamp, small) : sizeof(TransferStamp));
  }

  // Value of a stamp; it only grows in one slot.
  static uint64_t stamped(uint64_t run, bool poisoned) {
    return 2 * (run + 1) + (poisoned ? 1 : 0);
  }

 private:
  bool small() const { return payload_bytes_ <= int64_t{sizeof(TransferStamp::small)}; }
  int64_t stride() const {
    constexpr int64_t kLine = sizeof(TransferStamp);
    return small() ? kLine : kLine + align_up(payload_bytes_, kLine);
  }

  int64_t payload_bytes_ = 0;
  uint32_t slots_ = 1;
};

// A device of a peer that a host rings when it has written there.
struct LinkEnd {
  PeerMemory* memory = nullptr;
  uint64_t offset = 0;  // Where the host writes: the inbox, or the word `released`.
  uint32_t device = 0;

  void ring() const { memory->ring(device); }
  bool same_device(const LinkEnd& other) const {
    return memory == other.memory && device == other.device;
  }
};

class TransferSender {
 public:
  TransferSender() = default;
  TransferSender(TransferSlots slots, const std::atomic<uint64_t>& released, LinkEnd inbox)
      : slots_(slots), released_(&released), inbox_(inbox) {}

  bool may_send(uint64_t run) const {
    // The word changes with each run of the receiver: it is read only when its last known value is
    // not enough.
    if (run >= seen_ + slots_.slots()) seen_ = released_->load(std::memory_order_acquire);
    return run < seen_ + slots_.slots();
  }
  // Address in the peer's memory where the payload goes.
  std::byte* payload(uint64_t run) const {
    return inbox_.memory->at(inbox_.offset + slots_.payload(run));
  }
  void send(uint64_t run, bool poisoned) const {
    const uint64_t stamp = inbox_.offset + slots_.stamp(run);
    const uint64_t value = TransferSlots::stamped(run, poisoned);
    if (poisoned) {
      inbox_.memory->signal(stamp, value);
    } else {
      inbox_.memory->put({inbox_.offset + slots_.payload(run), slots_.payload_bytes()}, stamp,
                         value);
    }
    inbox_.ring();
  }

 private:
  TransferSlots slots_;
  const std::atomic<uint64_t>* released_ = nullptr;
  LinkEnd inbox_;
  mutable uint64_t seen_ = 0;  // Its device's thread: runs known to be released.
};

class TransferReceiver {
 public:
  TransferReceiver() = default;
  TransferReceiver(TransferSlots slots, std::byte* inbox, LinkEnd released)
      : slots_(slots), inbox_(inbox), released_(released) {}

  // The payload has arrived once the word has reached stamped(run, false).
  const std::atomic<uint64_t>& arrival(uint64_t run) const {
    return reinterpret_cast<const TransferStamp*>(inbox_ + slots_.stamp(run))->sent;
  }
  bool poisoned(uint64_t run) const {
    return arrival(run).load(std::memory_order_acquire) == TransferSlots::stamped(run, true);
  }
  std::byte* payload(uint64_t run) const { return inbox_ + slots_.payload(run); }
  // The caller must still ring the sender.
  void release(uint64_t run) const { released_.memory->signal(released_.offset, run + 1); }
  const LinkEnd& sender() const { return released_; }

 private:
  TransferSlots slots_;
  std::byte* inbox_ = nullptr;
  LinkEnd released_;
};

struct TransferChannel {
  TransferSlots slots;
  // One of the two is set.
  TransferSender sender;
  TransferReceiver receiver;
  // Set between devices of one process that need no host memory: the payloads lie in the receiver's
  // own memory, and `slots` only stamps them.
  std::shared_ptr<DeviceLink> link;
  LinkClass link_class = LinkClass::kHost;
};

}  // namespace gangway
