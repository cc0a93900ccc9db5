#include "executor/store/buffer_pool.h"

namespace gangway {

BufferPool::BufferPool(DeviceMemory& memory, int64_t bytes, std::string what, int64_t reserved)
    : memory_(memory), bytes_(bytes), what_(std::move(what)), keep_(static_cast<size_t>(reserved)) {
  for (int64_t i = 0; i < reserved; ++i) {
    free_.push_back(
        std::make_unique<Buffer>(memory_, memory_.allocate(bytes_, what_).take(), bytes_));
  }
}

BufferPtr BufferPool::take() {
  std::unique_ptr<Buffer> buffer;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (buffer == nullptr) {
    buffer = std::make_unique<Buffer>(memory_, memory_.allocate(bytes_, what_).take(), bytes_);
  }
  buffer->error = nullptr;
  return {buffer.release(), [pool = shared_from_this()](Buffer* given) {
            pool->give_back(std::unique_ptr<Buffer>(given));
          }};
}

void BufferPool::give_back(std::unique_ptr<Buffer> buffer) {
  std::lock_guard lock(mutex_);
  if (free_.size() < keep_) free_.push_back(std::move(buffer));
}

void BufferPool::close() {
  std::lock_guard lock(mutex_);
  keep_ = 0;
  free_.clear();
}

}  // namespace gangway
