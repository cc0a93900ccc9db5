// BufferPool: equal buffers of one device, handed out and taken back; a plan keeps one for each
// input and each output.
//
// A buffer returns to the pool when its last holder drops it. The reserved number of buffers exists
// until the pool is closed; buffers beyond it are allocated and freed as needed, so that a client
// may hold more results than runs are in flight, while memory lasts.
// Threads: take() on the reactor thread; buffers may be dropped anywhere.
// Ownership: shared by its buffers, which may outlive the plan.
// Errors: kOverloaded.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/store/buffer.h"

namespace gangway {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Allocates `reserved` buffers at once.
  BufferPool(DeviceMemory& memory, int64_t bytes, std::string what, int64_t reserved);

  BufferPtr take();
  // Frees the buffers that are in the pool now, and the others when they return.
  void close();

 private:
  void give_back(std::unique_ptr<Buffer> buffer);

  DeviceMemory& memory_;
  const int64_t bytes_;
  const std::string what_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> free_;
  int64_t extra_ = 0;  // Buffers that exist beyond the reserved ones.
  bool closed_ = false;
};

}  // namespace gangway
