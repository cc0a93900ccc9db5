// Buffer: a block of device memory that frees itself, with the state of its contents.
//
// Threads: see each member. Ownership: shares the memory, since a buffer may outlive its device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "executor/store/device_memory.h"
#include "runtime/base/error.h"
#include "runtime/base/result.h"

namespace gangway {

// The device thread sets `error` when the run that should have filled the buffer failed; every
// later reader in the stream sees it.
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
  // For a state with an error: the ranges of bytes that have been written again, part by part, each
  // from a begin to its end; when all are, the state is valid. Belongs to the device thread.
  std::map<int64_t, int64_t> rewritten;

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
