// Gpu: the shared part of one card: its driver, its memory, kernels by name, modules by their text,
// and host memory that it may reach.
//
// Several devices may be on one card: each has its streams, and they share this.
//
// Threads: any.
// Ownership: shared by the devices, their memory and functions compiled for them; the driver
// outlives it.
// Errors: lookups throw; see each.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"
#include "executor/store/device_memory.h"

namespace gangway::cuda {

// A compiled source; its kernels live as long as it.
class Module {
 public:
  Module(std::shared_ptr<Driver> driver, ModuleHandle handle)
      : driver_(std::move(driver)), handle_(handle) {}
  ~Module() { driver_->destroy(handle_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  ModuleHandle handle() const { return handle_; }

 private:
  const std::shared_ptr<Driver> driver_;
  const ModuleHandle handle_;
};

// The caller's host memory that is pinned, with its number of holders. All cards of a process share
// it, since all cards reach pinned memory and the driver refuses to pin it twice.
class Pins : public std::enable_shared_from_this<Pins> {
 public:
  // See DeviceMemory::pin(); uses one card's driver.
  std::shared_ptr<void> pin(const std::shared_ptr<Driver>& driver, void* data, int64_t bytes);

 private:
  struct Pinned {
    int holders = 0;
    std::shared_ptr<Driver> driver;
  };
  void release(void* data);

  std::mutex mutex_;
  std::map<void*, Pinned> pinned_;
};

class Gpu final : public MemoryBlocks {
 public:
  // Throws the driver's error if the card cannot be used.
  explicit Gpu(std::shared_ptr<Driver> driver,
               std::shared_ptr<Pins> pins = std::make_shared<Pins>());
  ~Gpu() override;

  Driver& driver() const { return *driver_; }
  const std::shared_ptr<Driver>& shared_driver() const { return driver_; }
  const GpuInfo& info() const { return info_; }

  // One of Gangway's own kernels, by name; none where there is no such kernel.
  KernelHandle kernel(const std::string& name);
  // Blocks where the source is new. Throws kBug with the compiler's words, kCancelled once
  // stop_compiling() was called.
  std::shared_ptr<const Module> compile(const ModuleSource& source);
  void stop_compiling() { compiles_.store(false, std::memory_order_release); }

  // A number that no other function of this card has.
  uint64_t next_serial() { return ++serials_; }

  // MemoryBlocks: stream-ordered memory of the card, ready when it is given.
  Result<std::byte*> allocate(int64_t bytes, const std::string& what) override;
  void release(std::byte* data) override;

  // See DeviceMemory::host_memory() and pin().
  HostMemory host_memory(int64_t bytes, const std::string& device);
  std::shared_ptr<void> pin(void* data, int64_t bytes) { return pins_->pin(driver_, data, bytes); }

 private:
  const std::shared_ptr<Driver> driver_;
  const GpuInfo info_;
  StreamHandle memory_stream_;
  std::atomic<uint64_t> serials_{0};
  std::atomic<bool> compiles_{true};
  std::mutex mutex_;
  std::map<std::string, KernelHandle, std::less<>> kernels_;
  std::map<std::string, std::weak_ptr<const Module>> modules_;  // Keys are texts.
  const std::shared_ptr<Pins> pins_;
};

}  // namespace gangway::cuda
