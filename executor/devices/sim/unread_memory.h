// UnreadMemory: memory for buffers whose contents are not used. All buffers overlap in one range,
// so that thousands of devices have buffers of any size for the price of the pages that are
// touched.
//
// Threads: any.
// Errors: kOverloaded for a buffer larger than the whole; the constructor throws it when the system
// has no such range of addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "executor/store/device_memory.h"

namespace gangway {

class UnreadMemory final : public MemoryBlocks {
 public:
  explicit UnreadMemory(int64_t bytes);
  ~UnreadMemory() override;
  UnreadMemory(const UnreadMemory&) = delete;

  Result<std::byte*> allocate(int64_t bytes, const std::string& what) override;
  void release(std::byte*) override {}

 private:
  const int64_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace gangway
