// The memory of an emulated machine: device memory that the host cannot touch, and pinned memory.
//
// A device address lies in a range that is mapped without any right, so a host that dereferences it
// dies at that line; the bytes themselves lie elsewhere. Addresses are never used twice, so freed
// memory stays known.
//
// Threads: the machine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated/shadow.h"

namespace gangway::emulated {

// The last accesses to a byte by threads of the running launch.
struct ThreadMark {
  uint32_t launch = 0;
  // Each of the three has the thread's number + 1 and the barriers that it has passed so far.
  uint32_t writer = 0, writer_block = 0, writer_warp = 0;
  uint32_t reader = 0, reader_block = 0, reader_warp = 0;
  uint32_t other = 0, other_block = 0, other_warp = 0;  // The reader before, a different thread.
};

struct Allocation {
  static constexpr int kHost = -1;
  Allocation(std::byte* at, int64_t size, int owner, std::byte* bytes_at, std::string what)
      : base(at),
        bytes(size),
        device(owner),
        data(bytes_at),
        label(std::move(what)),
        initialised(static_cast<size_t>(size), 0),
        shadow(size) {}

  std::byte* const base;  // The address that programs know.
  const int64_t bytes;
  const int device;  // kHost: pinned.
  std::byte* data;   // The bytes. Null once they are freed.
  const std::string label;
  std::unique_ptr<std::byte[]> owned;
  bool freed = false;
  std::string freed_by;
  std::vector<uint8_t> initialised;
  std::vector<ThreadMark> marks;  // Empty until a kernel touches the allocation.
  Shadow shadow;
};

class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;

  Allocation& add_device(int64_t bytes, int device, std::string label);
  Allocation& add_pinned(int64_t bytes);
  // Adds the caller's memory, which counts as initialised.
  Allocation& pin(std::byte* data, int64_t bytes);
  void forget(Allocation& allocation);

  // The allocation that holds `address`, freed or not; null: none does.
  Allocation* find(const void* address) const;
  bool is_device(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= space_ && at < space_ + kSpaceBytes;
  }

 private:
  static constexpr int64_t kSpaceBytes = int64_t{1} << 36;
  static constexpr int64_t kAlignment = 256;
  Allocation& add(std::unique_ptr<Allocation> allocation);

  std::byte* space_;
  int64_t used_ = kAlignment;
  std::map<const std::byte*, std::unique_ptr<Allocation>> allocations_;
};

}  // namespace gangway::emulated
