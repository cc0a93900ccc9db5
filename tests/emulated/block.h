// BlockRunner: runs a kernel as a card would, with a fiber for each thread of a block, one block
// after another.
//
// Between barriers threads run in an order drawn from the seed. Every access is checked: it must
// lie in a range that the launch declared and be aligned as its type is, the bytes must be
// initialised, and no other thread may have touched them without a barrier in between. Threads of
// different blocks are never ordered.
//
// Threads: one launch at a time.
// Ownership: ranges and reports outlive run().
#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/calls.h"
#include "executor/devices/cuda/kernels/kernel_source.h"
#include "runtime/base/rng.h"
#include "tests/emulated/memory.h"
#include "tests/emulated/report.h"

namespace gangway::emulated {

struct DeclaredRange {
  std::byte* begin = nullptr;  // An address that programs know.
  std::byte* end = nullptr;
  cuda::AccessKind kind = cuda::AccessKind::kRead;
  Allocation* allocation = nullptr;
};

struct KernelCall {
  const cuda::HostKernel* kernel = nullptr;
  const void* const* arguments = nullptr;
  cuda::Grid grid, block;
  uint32_t shared_bytes = 0;
  std::span<const DeclaredRange> ranges;
  std::string label;
};

class BlockRunner final : public cuda::RunningBlock {
 public:
  BlockRunner(Rng& rng, Reports& reports);
  ~BlockRunner() override;

  void run(const KernelCall& call);

  const void* load(const void* address, size_t bytes, size_t alignment) override;
  void* store(void* address, size_t bytes, size_t alignment) override;
  void raise(uint32_t* flag) override;
  void* shared_array(const void* key, size_t bytes) override;
  void* dynamic_shared() override;
  void sync_block() override;
  void sync_warp() override;
  const uint64_t* exchange(uint64_t bits) override;

 private:
  enum class Wait : uint8_t { kNone, kBlock, kWarp, kShuffle, kDone };
  struct FiberThread {
    boost::context::fiber fiber;
    cuda::Index3 index;
    Wait wait = Wait::kDone;
  };
  struct Warp {
    uint32_t barriers = 0;
    uint64_t shuffles = 0;
    uint64_t words[2][32] = {};
  };
  struct Place {  // The bytes of one access.
    std::byte* data = nullptr;
    uint8_t* initialised = nullptr;
    ThreadMark* marks = nullptr;
  };

  void run_block();
  void start(uint32_t thread);
  void resume(uint32_t thread);
  bool release();
  bool release_warps();
  void wait_for(Wait what);
  Place place(const void* address, size_t bytes, size_t alignment, bool writes);
  bool use_shared(size_t bytes);
  Place shared_place(const std::byte* address, size_t bytes);
  void note(ThreadMark* marks, size_t bytes, bool writes);
  bool races(uint32_t other, uint32_t block_barriers, uint32_t warp_barriers) const;
  void report(Fault fault, const std::string& text);
  std::string who() const;

  Rng& rng_;
  Reports& reports_;
  const KernelCall* call_ = nullptr;
  uint32_t launch_ = 0;         // Counts launches, for marks of global memory.
  uint32_t shared_launch_ = 0;  // Counts blocks, for marks of shared memory.
  uint32_t block_number_ = 0, threads_ = 0, current_ = 0, barriers_ = 0;
  bool broken_ = false;
  std::vector<FiberThread> fibers_;
  std::vector<Warp> warps_;
  boost::context::fiber caller_;
  std::map<const void*, size_t> arrays_;  // Offset of each shared array.
  std::unique_ptr<std::byte[]> shared_;
  std::vector<uint8_t> shared_initialised_;
  std::vector<ThreadMark> shared_marks_;
  size_t shared_used_ = 0;
  size_t last_range_ = 0;
  std::byte harmless_[64] = {};
};

}  // namespace gangway::emulated
