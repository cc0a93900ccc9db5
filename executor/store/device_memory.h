// DeviceMemory: the memory of one device, and the host's memory that the device's copies reach.
//
//   CUDA                      here
//   cudaMallocAsync / Free    allocate(), release()    exact accounting, one named budget
//   cudaMallocHost            host_memory()
//   cudaHostRegister          pin()
//
// Every byte that a device uses is allocated here under a name that says its use, so that tests can
// compare what was planned with what was allocated, to the byte, and a refusal can say what needs
// how much. Rounding to the alignment is the allocator's own and not counted. Bytes move between
// the two memories in the order of the device's work: see copy() of DeviceStream.
//
// The interface has 12 members.
// Units: bytes.
// Threads: any, except host_access() (see there). None of them suspends.
// Ownership: shared by the device and its buffers, which may outlive the device. Memory of the host
// may outlive both.
// Errors: kOverloaded, naming what needs how much, the device, and how much is free; host_memory()
// throws it.
// Cost: allocate() takes a lock and the system's or the driver's time.
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

enum class HostAccess : uint8_t { kRead, kWrite };

class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // `blocks`: null if the device's memory is the host's.
  DeviceMemory(std::string device, int64_t budget_bytes,
               std::shared_ptr<MemoryBlocks> blocks = nullptr);
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

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
  // False: memory of a modelled device that computes no values, so none of them needs space in the
  // memory that it shares with its peers.
  virtual bool has_values() const { return true; }

  // Memory that the host and the device's copies both reach, not initialised. Throws. Cost on a
  // discrete device: about a millisecond.
  virtual HostMemory host_memory(int64_t bytes);
  // Makes memory of the caller, in whole pages, accessible to copies, until the last copy of the
  // result is dropped. Null if copies reach it anyway.
  virtual std::shared_ptr<void> pin(void* data, int64_t bytes);
  // Says that the host is about to access such memory, so no operation that was started may still
  // access it. Only the emulated driver of the tests checks that. Called on the thread that
  // accesses it.
  virtual void host_access(HostAccess kind, const void* data, int64_t bytes);

 protected:
  const std::string& device() const { return device_; }  // Its name.

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

}  // namespace gangway
