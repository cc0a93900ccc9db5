// A device that has memory and does nothing by itself, for tests that advance work by themselves. A
// test overrides the functions that it needs to do more.
//
// Threads: the test's.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "executor/devices/device.h"

namespace gangway {

// Compiles nothing, and counts how often it is asked to.
class BareCompiler final : public DeviceCompiler {
 public:
  std::shared_ptr<const CompiledFunction> compile(const LocalFunction&) override {
    ++compiled;
    return nullptr;
  }

  int compiled = 0;
};

class BareDevice : public Device {
 public:
  explicit BareDevice(const std::string& name = "bare", int64_t memory_bytes = 1 << 20,
                      bool discrete = false)
      : Device(name, std::make_shared<DeviceMemory>(name, memory_bytes), compiler_, discrete) {}
  BareCompiler& compiler() { return compiler_; }
  void push(Work&, Lane*) override {}
  void ring() override {}
  void stop() override {}
  void use_bell(Bell) override {}
  int64_t now_ns() const override { return 0; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void check_finite(DType, const void*, int64_t, uint32_t*) override {}

 private:
  BareCompiler compiler_;
};

// A bare device whose clock the test sets.
class ClockedDevice final : public BareDevice {
 public:
  int64_t now_ns() const override { return clock_ns; }

  int64_t clock_ns = 0;
};

}  // namespace gangway
