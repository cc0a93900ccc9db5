// Runs a local function unchanged on the CPU device, in buffers whose ends are guarded.
//
// Threads: as many as the caller says; each call is one run.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/store/buffer_pool.h"
#include "tests/interpret/literal.h"
#include "tests/support/bare_device.h"

namespace gangway {

// 64-byte aligned memory with a guard after it, which shows a kernel that writes too far.
class GuardedBytes {
 public:
  GuardedBytes(DeviceMemory& memory, int64_t bytes)
      : bytes_(bytes), buffer_(allocate_buffer(memory, bytes + kGuard, "test")) {
    std::memset(buffer_->data(), 0xA5, static_cast<size_t>(bytes + kGuard));
  }
  std::byte* data() { return buffer_->data(); }
  bool guarded() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (buffer_->data()[bytes_ + i] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  int64_t bytes_;
  BufferPtr buffer_;
};

// kForgetful: one step at a time, and before each the frame forgets where its loops stand.
enum class Stepping { kWhole, kForgetful };

// The results of a local function on the CPU device.
inline std::vector<Literal> run_on_cpu(const LocalFunction& local,
                                       const std::vector<Literal>& inputs, int threads,
                                       uint32_t mesh_device = 0,
                                       Stepping stepping = Stepping::kWhole) {
  const auto& function = local.function;
  Parallel par(threads);
  const auto memory = std::make_shared<DeviceMemory>("test", int64_t{1} << 30);
  BareStream stream;
  const CpuFunction compiled(local, par);
  CallFrame frame;
  frame.mesh_device = mesh_device;
  std::vector<std::unique_ptr<GuardedBytes>> places;
  const auto add = [&](int64_t bytes) {
    places.push_back(std::make_unique<GuardedBytes>(*memory, bytes));
    frame.bases.push_back(places.back()->data());
    return places.back()->data();
  };
  for (const Literal& input : inputs) {
    const std::vector<std::byte> bytes = to_bytes(input);
    std::byte* data = add(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  }
  for (ValueId result : function->results) add(function->types[result].bytes());
  add(compiled.arena_bytes());
  Turn turn{.stream = stream};
  frame.end = stepping == Stepping::kWhole ? compiled.step_count() : 0;
  while (stepping == Stepping::kForgetful && frame.end + 1 < compiled.step_count()) {
    ++frame.end;
    EXPECT_EQ(compiled.advance(frame, turn), Progress::kDone);
    frame.at = {};
  }
  frame.end = compiled.step_count();
  EXPECT_EQ(compiled.advance(frame, turn), Progress::kDone);
  std::vector<Literal> results;
  for (size_t r = 0; r < function->results.size(); ++r) {
    const Type& type = function->types[function->results[r]];
    results.push_back(
        from_bytes(type, {frame.bases[inputs.size() + r], static_cast<size_t>(type.bytes())}));
  }
  for (const auto& place : places) EXPECT_TRUE(place->guarded()) << "wrote behind a buffer";
  return results;
}

inline std::vector<Literal> run_on_cpu(const std::shared_ptr<Function>& function,
                                       const std::vector<Literal>& inputs, int threads,
                                       uint32_t mesh_device = 0) {
  return run_on_cpu(LocalFunction{function, static_cast<NodeId>(function->nodes.size()), {}, kNone},
                    inputs, threads, mesh_device);
}

}  // namespace gangway
