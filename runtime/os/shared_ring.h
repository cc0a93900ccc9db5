// A ring of variable-size records in shared memory: one writer, one reader, in one process or two.
//
//   | RingHeader: head | tail | bells, a cache line each |  record record record ...        |
//   record: u32 bytes | payload | padding to 8;   bytes == 0xffffffff: go on at the start of the
//   ring
//
// Invariants: head and tail count bytes for ever, modulo 2^32; head - tail is what is filled, at
// most the capacity. A peer is not trusted: every number it writes is checked against what this
// side knows, and a ring found corrupt stays so, with no access outside it. Threads: one for each
// side. Nothing blocks, throws or allocates; to wait, park on the doorbells:
//   ticket = reader.filled().ticket();  if (reader.front(record) == RingStatus::kEmpty)
//   reader.filled().wait(ticket, ..);
// A writer may be given another doorbell to ring: a device thread parks on one for all its rings.
// Cost: hand-off of 64 bytes 0.1-0.3 us while the reader spins.
//
//   SharedSegment segment = SharedSegment::create(ring_bytes(1 << 16));
//   RingWriter writer(segment.data(), 1 << 16);  RingReader reader(segment.data(), 1 << 16);
//   writer.try_push("abc", 3);
//   RingRecord record;  if (reader.front(record) == RingStatus::kOk) { use(record); reader.pop(); }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/os/doorbell.h"

namespace gangway {

inline constexpr size_t kCacheLine = 64;

struct RingHeader {
  alignas(kCacheLine) std::atomic<uint32_t> head;
  alignas(kCacheLine) std::atomic<uint32_t> tail;
  alignas(kCacheLine) Doorbell filled;   // Rung by the writer.
  alignas(kCacheLine) Doorbell drained;  // Rung by the reader.
};

// Bytes of memory for a ring; `capacity` is a power of two from 64 to 2^30.
constexpr size_t ring_bytes(size_t capacity) { return sizeof(RingHeader) + capacity; }
// The largest record: half the ring, so that it fits whatever the position.
constexpr size_t ring_record_max(size_t capacity) { return capacity / 2 - 8; }

enum class RingStatus {
  kOk,
  kEmpty,
  kFull,
  kTooLarge,  // It would never fit.
  kCorrupt,   // The peer broke the format; for good.
};

using RingRecord = std::span<const std::byte>;

class RingWriter {
 public:
  // `memory` is zeroed when the first side attaches. Throws kInvalid for a capacity or alignment
  // that can't be.
  RingWriter(std::byte* memory, size_t capacity, Doorbell* reader_bell = nullptr);

  RingStatus try_push(const void* payload, size_t bytes);
  Doorbell& drained() { return header_->drained; }

 private:
  RingHeader* header_;
  std::byte* ring_;
  uint32_t capacity_;
  uint32_t head_;
  uint32_t tail_seen_;
  bool corrupt_ = false;
  Doorbell* bell_;
};

class RingReader {
 public:
  RingReader(std::byte* memory, size_t capacity);

  // The oldest record; valid until pop(). The peer could still change its bytes: copy before
  // checking them.
  RingStatus front(RingRecord& record);
  // After a front() that was kOk.
  void pop();
  Doorbell& filled() { return header_->filled; }

 private:
  RingHeader* header_;
  std::byte* ring_;
  uint32_t capacity_;
  uint32_t tail_;
  uint32_t head_seen_;
  uint32_t front_bytes_ = 0;  // Of the record at front, with its length and padding.
  bool corrupt_ = false;
};

}  // namespace gangway
