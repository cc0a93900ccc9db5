// A device that has memory and does nothing by itself, for tests that advance work by themselves. A
// test overrides the functions of the stream that it needs to do more.
//
// Threads: the test's.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

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

class BareStream : public DeviceStream {
 public:
  explicit BareStream(std::string device = "bare", bool discrete = false)
      : DeviceStream(std::move(device), discrete) {}
  void push(Work&, RankStream*) override {}
  void ring() override {}
  void stop() override {}
  void use_bell(Bell) override {}
  int64_t now_ns() const override { return clock_ns; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void check_finite(DType, const void*, int64_t, uint32_t*) override {}

  int64_t clock_ns = 0;  // The test sets it.
};

class BareDevice final : public Device {
 public:
  explicit BareDevice(std::unique_ptr<BareStream> stream = std::make_unique<BareStream>())
      : Device(std::make_shared<DeviceMemory>(stream->name(), 1 << 20), compiler_, *stream),
        stream_(std::move(stream)) {}
  BareCompiler& compiler() { return compiler_; }
  BareStream& stream() { return *stream_; }

 private:
  BareCompiler compiler_;
  const std::unique_ptr<BareStream> stream_;
};

}  // namespace gangway
