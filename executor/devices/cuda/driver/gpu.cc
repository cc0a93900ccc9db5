#include "executor/devices/cuda/driver/gpu.h"

#include <algorithm>

namespace gangway::cuda {

std::shared_ptr<void> Pins::pin(const std::shared_ptr<Driver>& driver, void* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Pinned& pinned = pinned_[data];
  if (pinned.holders == 0) {
    const Status status = driver->pin(data, bytes);
    if (!status.ok()) {
      pinned_.erase(data);
      throw to_error(status);
    }
    pinned.driver = driver;
  }
  ++pinned.holders;
  return {data, [pins = shared_from_this()](void* held) { pins->release(held); }};
}

void Pins::release(void* data) {
  const std::lock_guard lock(mutex_);
  Pinned& pinned = pinned_.at(data);
  if (--pinned.holders > 0) return;
  pinned.driver->unpin(data);
  pinned_.erase(data);
}

Gpu::Gpu(std::shared_ptr<Driver> driver, std::shared_ptr<Pins> pins)
    : driver_(std::move(driver)),
      info_(driver_->info()),
      memory_stream_(driver_->make_stream("memory").take()),
      pins_(std::move(pins)) {}

Gpu::~Gpu() { driver_->destroy(memory_stream_); }

KernelHandle Gpu::kernel(const std::string& name) {
  const std::lock_guard lock(mutex_);
  KernelHandle& known = kernels_[name];
  if (known) return known;
  const Result<KernelHandle> found = driver_->kernel({}, name);
  return known = found.ok() ? found.value() : KernelHandle{};
}

std::shared_ptr<const Module> Gpu::compile(const ModuleSource& source) {
  if (!compiles_.load(std::memory_order_acquire))
    throw Error(ErrorKind::kCancelled, "generated source: its host has ended");
  {
    const std::lock_guard lock(mutex_);
    if (auto known = modules_[source.text].lock()) return known;
  }
  // Not under the lock, since devices ask for kernels and memory meanwhile. Two threads may compile
  // the same source.
  Result<ModuleHandle> made = driver_->compile(source);
  if (!made.ok())
    throw Error(ErrorKind::kBug,
                cat("generated source: ", made.error().message(), "\n", source.text));
  auto module = std::make_shared<const Module>(driver_, made.value());
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Module>& place = modules_[source.text];
  if (auto known = place.lock()) return known;
  place = module;
  return module;
}

Result<std::byte*> Gpu::allocate(int64_t bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (const Status health = driver_->health(); !health.ok()) return to_error(health);
  Result<std::byte*> data = driver_->allocate({memory_stream_, what}, std::max<int64_t>(bytes, 1));
  if (!data.ok()) return data;
  if (const Status ready = driver_->synchronize(memory_stream_); !ready.ok())
    return to_error(ready);
  return data;
}

void Gpu::release(std::byte* data) {
  const std::lock_guard lock(mutex_);
  // On a card that was lost there is nothing to give back.
  static_cast<void>(driver_->free({memory_stream_, "free"}, data));
}

HostMemory Gpu::host_memory(int64_t bytes, const std::string& device) {
  Result<std::byte*> data = driver_->allocate_pinned(std::max<int64_t>(bytes, 1));
  if (!data.ok()) {
    throw Error(ErrorKind::kOverloaded,
                cat("pinned memory: ", bytes, " B: ", data.error().message()), {.device = device});
  }
  return {data.value(), [driver = driver_](std::byte* memory) { driver->free_pinned(memory); }};
}

}  // namespace gangway::cuda
