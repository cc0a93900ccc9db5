// Collective: one device's membership of a group of devices that compute something together. Like
// ncclComm_t.
//
// Invariants
//  - All members begin the same collectives in the same order; members are numbered, and every
//    reduction is a tree that depends on those numbers and on the members' hosts only, so that the
//    result has the same bits on every member and on every repetition, of a reduce-scatter too.
//  - A poisoned member takes part in every collective like the others, carrying its flag: it never
//    leaves its peers waiting, and each of them knows when it is done that the result is not valid.
//  - An abort flag is noticed outside of collectives: a member that waits for its own device, and
//    not for the others, learns that one of them will never take part.
//  - A collective is a state machine: begin, then advance() until it is done. The device's bell is
//    rung when it can go on.
//
// Steps and bytes of each implementation: docs/collectives.md.
// Threads: the device's; abort flags on any thread.
// Ownership: tensors stay the caller's and must live until done.
// Errors: failure(); a member that dies leaves the others waiting until the controller gives up the
// plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "executor/collectives/collective_kind.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/work.h"
#include "ir/types/dtype.h"
#include "ir/types/reduction.h"

namespace gangway {

// `in` may be `out`.
struct CollectiveTensor {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t elements = 0;
  DType dtype = DType::kF32;
};
inline int64_t bytes_of(const CollectiveTensor& tensor) {
  return tensor.elements * static_cast<int64_t>(size_of(tensor.dtype));
}

struct CollectiveCall;

class Collective {
 public:
  virtual ~Collective() = default;

  // "Everything": the results of this plan's collectives are not used any more.
  static constexpr uint64_t kEverything = ~uint64_t{0};

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // Only modelled devices call it.
  virtual PeerCounts peers() const { return {}; }
  // ranks_here(): members on this one's device, with itself. all_here_began(): whether all of them
  // have begun the collective that this one has; only then may it keep the device from other
  // programs. Until then the device must advance the other ranks.
  virtual uint32_t ranks_here() const { return 1; }
  virtual bool all_here_began() const { return true; }

  // The label by which errors name the collectives that follow; it must live until they are done.
  virtual void name(std::string_view label) { static_cast<void>(label); }

  // Begins a collective of any kind (collective_call.h).
  virtual void begin(const CollectiveCall& call, bool poisoned) = 0;
  // Every member learns the least and the largest of all words. A gate is such an exchange.
  virtual void begin_exchange(uint64_t word, bool poisoned) = 0;

  // Device memory that it works in; set once, before the first collective.
  virtual int64_t staging_bytes() const { return 0; }
  virtual void use_staging(std::byte* staging) { static_cast<void>(staging); }

  // Done on a discrete device means started; DeviceStream::join_collectives() orders later work
  // behind it.
  virtual Progress advance() = 0;
  // Once done: whether any member was poisoned.
  virtual bool poisoned() const = 0;
  // Valid once an exchange is done in which no member was poisoned.
  virtual uint64_t least() const = 0;
  virtual uint64_t most() const = 0;
  // The words of the members of this host, in the order of their ranks.
  virtual std::span<const uint64_t> words() const = 0;
  // Once done: why this member's own part failed; null if it did not.
  virtual std::shared_ptr<const Error> failure() const { return nullptr; }

  // Sends `what`, a number that all members know, to all of them and rings them. A member's later
  // number replaces its earlier one, except one about everything.
  virtual void raise_abort(uint64_t what) { static_cast<void>(what); }
  // Whether a member raised this abort flag, or one about everything.
  virtual bool abort_raised(uint64_t what) const { return static_cast<void>(what), false; }
};

}  // namespace gangway
