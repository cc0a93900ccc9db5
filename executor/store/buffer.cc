#include "executor/store/buffer.h"

#include <utility>

namespace gangway {

void Buffer::leave_device() {
  if (std::exchange(counts_, false)) memory_->unreserve(bytes_);
}

Result<void> Buffer::join_device(const std::string& what) {
  if (counts_) return {};
  Result<void> reserved = memory_->reserve(bytes_, what);
  counts_ = reserved.ok();
  return reserved;
}

BufferPtr allocate_buffer(DeviceMemory& memory, int64_t bytes, const std::string& what) {
  return std::make_shared<Buffer>(memory, memory.allocate(bytes, what).take(), bytes);
}

}  // namespace gangway
