// Collective: one device's membership of a group of devices that compute something together. Like
// ncclComm_t.
//
// Invariants
//  - All members begin the same collectives in the same order; members are numbered, and every
//  reduction goes by that
//    number, so that the result has the same bits on every member and on every repetition.
//  - A poisoned member takes part in every collective like the others, carrying its flag: it never
//  leaves its peers
//    waiting, and each of them knows when it is done that the result means nothing.
//  - A collective is a state machine: begin, then advance() until it is done. What it waits for is
//  announced by a ring
//    of the device's bell.
//
// Steps and bytes of each implementation: docs/collectives.md.
// Threads: the device's. Ownership: tensors stay the caller's and must live until done. Errors:
// none; a member that dies leaves the others waiting until the controller uninstalls the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/stream.h"
#include "ir/dtype.h"

namespace gangway {

enum class Reduction : uint8_t { kSum, kMax, kMin };

// `in` may be `out`.
struct CollectiveTensor {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t elements = 0;
  DType dtype = DType::kF32;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;

  // Several tensors as one bucket: one exchange for all of them.
  virtual void begin_all_reduce(std::span<const CollectiveTensor> tensors, Reduction reduction,
                                bool poisoned) = 0;
  // Every member learns the word of every other: what a gate is made of.
  virtual void begin_exchange(uint64_t word, bool poisoned) = 0;

  // Memory of the device that it works in; given once, before the first collective.
  virtual int64_t staging_bytes() const { return 0; }
  virtual void use_staging(std::byte* staging) { static_cast<void>(staging); }

  virtual Progress advance() = 0;
  // Once done: was any member poisoned; and the words by rank (0 in an all-reduce).
  virtual bool poisoned() const = 0;
  virtual std::span<const uint64_t> words() const = 0;
};

}  // namespace gangway
