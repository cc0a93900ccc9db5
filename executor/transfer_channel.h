// TransferChannel: one device sends one value to one device of another slice, once a run.
//
//   receiver's memory:  header | slot 0 | slot 1 | ...     one slot for each run in flight
//
// The sender writes the payload straight into the receiver's slot, raises the count and rings; the
// receiver's kernels read it there. A slot is credit: the receiver gives it back when its run has
// ended. A poisoned sender sends a flag in place of data, so that the receiver never waits for it.
//
// Invariant: send n of a plan is run n of that plan; it lies in slot n % slots on both sides.
// Threads: one side each, on its device's thread. Ownership: memory and bells are the plan's.
// Cost: one copy of the payload, and one ring each way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "executor/bell.h"
#include "executor/stream.h"

namespace gangway {

inline constexpr uint32_t kTransferSlotsMax = 64;

// The line that the receiver polls is written once for each send: anything else beside `sent` would
// make it cross between the cores twice.
struct alignas(64) TransferHeader {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> poisoned{0};  // One bit for each slot, written only when it changes.
  alignas(64) std::atomic<uint64_t> released{0};
};

class TransferSlots {
 public:
  TransferSlots() = default;
  TransferSlots(std::byte* data, int64_t payload_bytes, uint32_t slots)
      : header_(reinterpret_cast<TransferHeader*>(data)),
        payloads_(data + sizeof(TransferHeader)),
        stride_((payload_bytes + 63) / 64 * 64),
        slots_(slots) {}

  static int64_t bytes(int64_t payload_bytes, uint32_t slots) {
    return static_cast<int64_t>(sizeof(TransferHeader)) + (payload_bytes + 63) / 64 * 64 * slots;
  }

  // Sender. `released`: what it saw last; the receiver's line is read only when that is not enough.
  bool may_send(uint64_t run, uint64_t& released) const {
    if (run >= released + slots_) released = header_->released.load(std::memory_order_acquire);
    return run < released + slots_;
  }
  void sent(uint64_t run, bool poisoned) {
    if (poisoned != this->poisoned(run)) {
      header_->poisoned.fetch_xor(uint64_t{1} << (run % slots_), std::memory_order_relaxed);
    }
    header_->sent.store(run + 1, std::memory_order_release);
  }
  // Receiver.
  bool arrived(uint64_t run) const { return header_->sent.load(std::memory_order_acquire) > run; }
  bool poisoned(uint64_t run) const {
    return (header_->poisoned.load(std::memory_order_relaxed) >> (run % slots_) & 1) != 0;
  }
  void release(uint64_t run) { header_->released.store(run + 1, std::memory_order_release); }

  std::byte* payload(uint64_t run) const {
    return payloads_ + stride_ * static_cast<int64_t>(run % slots_);
  }

 private:
  TransferHeader* header_ = nullptr;
  std::byte* payloads_ = nullptr;
  int64_t stride_ = 0;
  uint32_t slots_ = 1;
};

struct TransferChannel {
  TransferSlots slots;
  Bell peer;                      // Sender: the receiver's bell; receiver: the sender's.
  mutable uint64_t released = 0;  // Sender, its device's thread: runs known to be released.
};

}  // namespace gangway
