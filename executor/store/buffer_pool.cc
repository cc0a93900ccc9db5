#include "executor/store/buffer_pool.h"

namespace gangway {

BufferPool::BufferPool(DeviceMemory& memory, int64_t bytes, std::string what, int64_t reserved)
    : memory_(memory), bytes_(bytes), what_(std::move(what)) {
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
    std::lock_guard lock(mutex_);
    ++extra_;
  }
  buffer->error = nullptr;
  buffer->pending = false;
  return {buffer.release(), [pool = shared_from_this()](Buffer* given) {
            pool->give_back(std::unique_ptr<Buffer>(given));
          }};
}

void BufferPool::give_back(std::unique_ptr<Buffer> buffer) {
  std::lock_guard lock(mutex_);
  if (extra_ > 0) {
    --extra_;
  } else if (!closed_) {
    free_.push_back(std::move(buffer));
  }
}

void BufferPool::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  free_.clear();
}

}  // namespace gangway
