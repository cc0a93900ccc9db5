// Memory and copies.
#include <algorithm>

#include "executor/devices/cuda/module/cuda_driver.h"
#include "runtime/base/error.h"

namespace gangway::cuda {

Result<std::byte*> CudaDriver::allocate(At at, int64_t bytes) {
  enter();
  {
    const std::lock_guard lock(mutex_);
    const int64_t room = options_.memory_bytes - in_use_;
    if (bytes > room) {
      return to_error({StatusKind::kOutOfMemory, false,
                       cat(at.label, ": needs ", bytes, " bytes: ", room, " are free")});
    }
    in_use_ += bytes;  // Reserved, so that two threads don't share the last of it.
  }
  void* data = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  Status status = done(cudaMallocFromPoolAsync(&data, size, pool_, stream_of(at.stream)), at.label);
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    in_use_ -= bytes;
    return to_error(status);
  }
  auto* const made = static_cast<std::byte*>(data);
  allocations_[made] = bytes;
  return made;
}

Status CudaDriver::free(At at, std::byte* data) {
  enter();
  {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(data);
    if (found == allocations_.end())
      return {StatusKind::kInvalid, false, cat(at.label, ": frees what was not allocated here")};
    in_use_ -= found->second;
    allocations_.erase(found);
  }
  return done(cudaFreeAsync(data, stream_of(at.stream)), at.label);
}

// The pool's own count, which includes its rounding.
int64_t CudaDriver::pool_bytes(cudaMemPoolAttr which) const {
  enter();
  uint64_t bytes = 0;
  cudaMemPoolGetAttribute(pool_, which, &bytes);
  return static_cast<int64_t>(bytes);
}

int64_t CudaDriver::memory_in_use() const { return pool_bytes(cudaMemPoolAttrUsedMemCurrent); }
int64_t CudaDriver::memory_peak() const { return pool_bytes(cudaMemPoolAttrUsedMemHigh); }

Result<std::byte*> CudaDriver::allocate_pinned(int64_t bytes) {
  enter();
  void* data = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  Status status = done(cudaHostAlloc(&data, size, cudaHostAllocPortable), "pinned memory");
  if (!status.ok()) return to_error(status);
  return static_cast<std::byte*>(data);
}

void CudaDriver::free_pinned(std::byte* data) {
  enter();
  cudaFreeHost(data);
}

Status CudaDriver::pin(void* data, int64_t bytes) {
  enter();
  return done(cudaHostRegister(data, static_cast<size_t>(bytes), cudaHostRegisterPortable), "pin");
}

void CudaDriver::unpin(void* data) {
  enter();
  cudaHostUnregister(data);
}

Status CudaDriver::copy(At at, void* to, const void* from, int64_t bytes) {
  enter();
  if (bytes == 0) return {};
  return done(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                              stream_of(at.stream)),
              at.label);
}

Status CudaDriver::copy_rows(At at, const RowCopies& rows) {
  enter();
  if (rows.bytes == 0 || rows.rows == 0) return {};
  return done(
      cudaMemcpy2DAsync(rows.to, static_cast<size_t>(rows.to_step), rows.from,
                        static_cast<size_t>(rows.from_step), static_cast<size_t>(rows.bytes),
                        static_cast<size_t>(rows.rows), cudaMemcpyDefault, stream_of(at.stream)),
      at.label);
}

Status CudaDriver::fill(At at, void* to, uint8_t value, int64_t bytes) {
  enter();
  if (bytes == 0) return {};
  return done(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream_of(at.stream)),
              at.label);
}

}  // namespace gangway::cuda
