#include "runtime/os/shared_ring.h"

#include <bit>
#include <cstring>

#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr uint32_t kWrap = 0xffffffff;
constexpr uint32_t kAlign = 8;
constexpr uint32_t kLengthBytes = 4;

uint32_t padded(size_t bytes) {
  return static_cast<uint32_t>((kLengthBytes + bytes + kAlign - 1) / kAlign * kAlign);
}

RingHeader* attach(std::byte* memory, size_t capacity) {
  GW_REQUIRE(std::has_single_bit(capacity) && capacity >= kCacheLine && capacity <= 1u << 30,
             "ring: its capacity is a power of two from 64 to 2^30, got ", capacity);
  GW_REQUIRE(reinterpret_cast<uintptr_t>(memory) % kCacheLine == 0,
             "ring: its memory starts at a multiple of 64 bytes");
  return reinterpret_cast<RingHeader*>(memory);
}

}  // namespace

RingWriter::RingWriter(std::byte* memory, size_t capacity, Doorbell* reader_bell)
    : header_(attach(memory, capacity)),
      ring_(memory + sizeof(RingHeader)),
      capacity_(static_cast<uint32_t>(capacity)),
      head_(header_->head.load(std::memory_order_relaxed)),
      tail_seen_(header_->tail.load(std::memory_order_acquire)),
      corrupt_(head_ % kAlign != 0),
      bell_(reader_bell != nullptr ? reader_bell : &header_->filled) {}

RingStatus RingWriter::try_push(const void* payload, size_t bytes) {
  if (bytes > ring_record_max(capacity_)) return RingStatus::kTooLarge;
  if (corrupt_) return RingStatus::kCorrupt;
  const uint32_t needed = padded(bytes);
  const uint32_t at = head_ & (capacity_ - 1);
  const uint32_t skipped = at + needed > capacity_ ? capacity_ - at : 0;
  if (capacity_ - (head_ - tail_seen_) < skipped + needed) {
    tail_seen_ = header_->tail.load(std::memory_order_acquire);
    if (head_ - tail_seen_ > capacity_) {
      corrupt_ = true;
      return RingStatus::kCorrupt;
    }
    if (capacity_ - (head_ - tail_seen_) < skipped + needed) return RingStatus::kFull;
  }
  if (skipped > 0) std::memcpy(ring_ + at, &kWrap, kLengthBytes);
  std::byte* record = ring_ + (skipped > 0 ? 0 : at);
  const auto length = static_cast<uint32_t>(bytes);
  std::memcpy(record, &length, kLengthBytes);
  if (bytes > 0) std::memcpy(record + kLengthBytes, payload, bytes);
  head_ += skipped + needed;
  header_->head.store(head_, std::memory_order_release);
  bell_->ring();
  return RingStatus::kOk;
}

RingReader::RingReader(std::byte* memory, size_t capacity)
    : header_(attach(memory, capacity)),
      ring_(memory + sizeof(RingHeader)),
      capacity_(static_cast<uint32_t>(capacity)),
      tail_(header_->tail.load(std::memory_order_relaxed)),
      head_seen_(tail_),
      corrupt_(tail_ % kAlign != 0) {}

RingStatus RingReader::front(RingRecord& record) {
  if (corrupt_) return RingStatus::kCorrupt;
  if (head_seen_ == tail_) {
    head_seen_ = header_->head.load(std::memory_order_acquire);
    if (head_seen_ == tail_) return RingStatus::kEmpty;
  }
  const uint32_t filled = head_seen_ - tail_;
  const uint32_t at = tail_ & (capacity_ - 1);
  uint32_t length;
  std::memcpy(&length, ring_ + at, kLengthBytes);
  const uint32_t skipped = length == kWrap ? capacity_ - at : 0;
  if (skipped > 0) std::memcpy(&length, ring_, kLengthBytes);
  const bool fits = filled <= capacity_ && filled % kAlign == 0 &&
                    length <= ring_record_max(capacity_) &&
                    uint64_t{skipped} + padded(length) <= filled &&
                    (skipped > 0 || at + padded(length) <= capacity_);
  if (!fits) {
    corrupt_ = true;
    return RingStatus::kCorrupt;
  }
  record = {ring_ + (skipped > 0 ? 0 : at) + kLengthBytes, length};
  front_bytes_ = skipped + padded(length);
  return RingStatus::kOk;
}

void RingReader::pop() {
  tail_ += front_bytes_;
  front_bytes_ = 0;
  header_->tail.store(tail_, std::memory_order_release);
  header_->drained.ring();
}

}  // namespace gangway
