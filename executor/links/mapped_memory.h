// MappedMemory: memory that both hosts reach by an address. A put is a store, and nothing is
// copied, since at() is the peer's memory itself.
//
// Threads, errors: see host_link.h.
// Ownership: `owner` keeps memory and doorbells alive.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "executor/links/host_link.h"
#include "executor/work/bell.h"

namespace gangway {

class MappedMemory final : public OwnMemory {
 public:
  MappedMemory(std::shared_ptr<const void> owner, std::span<std::byte> memory,
               std::vector<Bell> bells, std::vector<std::byte> offer)
      : owner_(std::move(owner)),
        memory_(memory),
        bells_(std::move(bells)),
        offer_(std::move(offer)) {}

  uint64_t place(const std::string& area, int64_t bytes) override {
    return find_area(memory_, area, bytes);
  }
  uint32_t devices() const override { return static_cast<uint32_t>(bells_.size()); }
  std::byte* at(uint64_t offset) const override { return memory_.data() + offset; }
  std::span<std::byte> range(uint64_t) const override { return memory_; }
  void put(const LinkPayload&, uint64_t flag, uint64_t value) override { signal(flag, value); }
  void signal(uint64_t flag, uint64_t value) override {
    reinterpret_cast<std::atomic<uint64_t>*>(at(flag))->store(value, std::memory_order_release);
  }
  void ring(uint32_t device) override { bells_[device].ring(); }
  bool keeps_order() const override { return true; }
  // Empty for a peer's memory.
  std::vector<std::byte> offer() const override { return offer_; }

 private:
  const std::shared_ptr<const void> owner_;
  const std::span<std::byte> memory_;
  const std::vector<Bell> bells_;
  const std::vector<std::byte> offer_;
};

}  // namespace gangway
