#include "executor/store/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/units.h"

namespace gangway {
namespace {

std::string size_text(int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

}  // namespace

DeviceMemory::DeviceMemory(std::string device, int64_t budget_bytes,
                           std::shared_ptr<MemoryBlocks> blocks)
    : device_(std::move(device)), budget_(budget_bytes), blocks_(std::move(blocks)) {}

Result<void> DeviceMemory::would_fit(int64_t bytes, const std::string& what) const {
  std::lock_guard lock(mutex_);
  const int64_t free = budget_ - in_use_;
  if (bytes <= free) return {};
  return Error(
      ErrorKind::kOverloaded,
      cat(what, ": does not fit: needs ", size_text(bytes), ", of ", size_text(budget_),
          " on the device ", size_text(free), " are free, ", size_text(bytes - free), " short"),
      {.device = device_}, "use more devices, smaller tensors, or free arrays and programs");
}

Result<void> DeviceMemory::reserve(int64_t bytes, const std::string& what) {
  Result<void> fits = would_fit(bytes, what);
  if (!fits.ok()) return fits;
  std::lock_guard lock(mutex_);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  return {};
}

void DeviceMemory::unreserve(int64_t bytes) {
  std::lock_guard lock(mutex_);
  in_use_ -= bytes;
}

Result<std::byte*> DeviceMemory::allocate(int64_t bytes, const std::string& what) {
  Result<void> reserved = reserve(bytes, what);
  if (!reserved.ok()) return reserved.error();
  if (blocks_ != nullptr) {
    Result<std::byte*> block = blocks_->allocate(bytes, what);
    if (block.ok()) return block;
    unreserve(bytes);
    return Error(block.error()).add_where({.device = device_});
  }
  if (std::byte* data = host_block(bytes); data != nullptr) return data;
  unreserve(bytes);
  return Error(ErrorKind::kOverloaded,
               cat(what, ": the machine has no ", size_text(bytes), " left"), {.device = device_},
               "give the device a smaller budget, or the machine more memory");
}

void DeviceMemory::release(std::byte* data, int64_t bytes) {
  if (blocks_ != nullptr) {
    blocks_->release(data);
  } else {
    std::free(data);
  }
  unreserve(bytes);
}

int64_t DeviceMemory::in_use() const {
  std::lock_guard lock(mutex_);
  return in_use_;
}

int64_t DeviceMemory::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

HostMemory DeviceMemory::host_memory(int64_t bytes) {
  std::byte* data = host_block(bytes);
  if (data == nullptr) {
    throw Error(ErrorKind::kOverloaded, cat("host memory: the machine has no ", bytes, " B left"),
                {.device = device_});
  }
  return {data, [](std::byte* memory) { std::free(memory); }};
}

std::shared_ptr<void> DeviceMemory::pin(void*, int64_t) { return nullptr; }

void DeviceMemory::host_access(HostAccess, const void*, int64_t) {}

}  // namespace gangway
