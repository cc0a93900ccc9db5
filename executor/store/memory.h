// DeviceMemory: allocates the memory of one device within its budget, and counts it.
//
// Every byte that a device uses is allocated here under a name that says its use, so that tests can
// compare what was planned with what was allocated, to the byte, and a refusal can say what needs
// how much. Rounding to the alignment is the allocator's own and not counted.
//
// Threads: any.
// Errors: kOverloaded, naming what needs how much, the device, and how much is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "protocol/memory_units.h"
#include "runtime/base/result.h"

namespace gangway {

// Source of the bytes of a discrete device. Memory from allocate() may be used at once; it must be
// idle when it is released.
// Threads: any.
// Errors: kOverloaded when there is none left, kUnavailable when the device is lost.
class MemoryBlocks {
 public:
  virtual ~MemoryBlocks() = default;
  virtual Result<std::byte*> allocate(int64_t bytes, const std::string& what) = 0;
  virtual void release(std::byte* data) = 0;
};

// Memory of the host that a device's copies reach.
using HostMemory = std::shared_ptr<std::byte[]>;

class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // `blocks`: null if the device's memory is the host's.
  DeviceMemory(std::string device, int64_t budget_bytes,
               std::shared_ptr<MemoryBlocks> blocks = nullptr);
  DeviceMemory(const DeviceMemory&) = delete;

  Result<std::byte*> allocate(int64_t bytes, const std::string& what);
  // `bytes`: how many of the block's bytes still count as the device's.
  void release(std::byte* data, int64_t bytes);
  // Counts bytes that lie elsewhere (a shared segment) as this device's.
  Result<void> reserve(int64_t bytes, const std::string& what);
  void unreserve(int64_t bytes);
  // Whether `bytes` would fit now.
  Result<void> would_fit(int64_t bytes, const std::string& what) const;

  int64_t budget() const { return budget_; }
  int64_t in_use() const;
  int64_t peak() const;

 private:
  const std::string device_;
  const int64_t budget_;
  const std::shared_ptr<MemoryBlocks> blocks_;
  mutable std::mutex mutex_;
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
};

// Allocates host memory in whole allocation units of a device, for std::free(); null if there is
// none left.
inline std::byte* host_block(int64_t bytes) {
  return static_cast<std::byte*>(
      std::aligned_alloc(kDeviceAlignment, static_cast<size_t>(block_bytes(bytes))));
}

// A block of device memory that frees itself. The device thread sets `error` when the run that
// should have filled the buffer failed; every later reader in the stream sees it.
class Buffer {
 public:
  Buffer(DeviceMemory& memory, std::byte* data, int64_t bytes)
      : memory_(memory.shared_from_this()), data_(data), bytes_(bytes) {}
  ~Buffer() { memory_->release(data_, counts_ ? bytes_ : 0); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // For a device whose memory is the host's: the bytes stay where they are, and no longer count as
  // the device's, or count again. Reactor's thread.
  void leave_device();
  Result<void> join_device(const std::string& what);

  std::shared_ptr<const Error> error;
  // The run that fills the buffer has not ended on the device; a reader waits. Belongs to the
  // device thread once that run is enqueued.
  bool pending = false;
  // On a discrete device: work that the run, or a put, started may still fail and set `error`.
  // Belongs to the device thread.
  bool settling = false;
  // For a state with an error: number of bytes from its begin that have been written again, part by
  // part; when all have, the state is valid. Belongs to the device thread.
  int64_t rewritten = 0;

 private:
  const std::shared_ptr<DeviceMemory> memory_;  // A buffer may outlive its device.
  std::byte* data_;
  int64_t bytes_;
  bool counts_ = true;
};
using BufferPtr = std::shared_ptr<Buffer>;

// Throws kOverloaded; for the control plane.
BufferPtr allocate_buffer(DeviceMemory& memory, int64_t bytes, const std::string& what);

}  // namespace gangway
