#include "tests/emulated/block.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/align.h"
#include "runtime/base/cat.h"
#include "runtime/fibers/fiber_stack.h"

namespace gangway::emulated {
namespace {

constexpr size_t kSharedBytesMax = 227 << 10;  // Shared memory of a block on sm_90.
constexpr uint32_t kRaisers = UINT32_MAX;  // The writer of a flag, for all threads that raised it.

internal::PooledStack stacks() {
  thread_local const auto pool = std::make_shared<internal::StackPool>();
  return internal::PooledStack(pool);
}

}  // namespace

BlockRunner::BlockRunner(Rng& rng, Reports& reports)
    : rng_(rng),
      reports_(reports),
      shared_(std::make_unique_for_overwrite<std::byte[]>(kSharedBytesMax)) {}

BlockRunner::~BlockRunner() = default;

void BlockRunner::run(const KernelCall& call) {
  call_ = &call;
  ++launch_;
  broken_ = false;
  threads_ = call.block.x * call.block.y * call.block.z;
  block_size = {call.block.x, call.block.y, call.block.z};
  grid_size = {call.grid.x, call.grid.y, call.grid.z};
  for (uint32_t z = 0; z < call.grid.z; ++z) {
    for (uint32_t y = 0; y < call.grid.y; ++y) {
      for (uint32_t x = 0; x < call.grid.x && !broken_; ++x) {
        block = {x, y, z};
        block_number_ = (z * call.grid.y + y) * call.grid.x + x;
        run_block();
      }
    }
  }
  call_ = nullptr;
}

void BlockRunner::run_block() {
  ++shared_launch_;
  arrays_.clear();
  shared_used_ = 0;
  use_shared(call_->shared_bytes);
  barriers_ = 0;
  warps_.assign(ceil_div(threads_, cuda::kWarpThreads), {});
  if (fibers_.size() < threads_) fibers_.resize(threads_);
  for (uint32_t t = 0; t < threads_; ++t) start(t);
  do {
    const auto first = static_cast<uint32_t>(rng_.below(threads_));
    for (uint32_t i = 0; i < threads_; ++i) {
      const uint32_t t = (first + i) % threads_;
      if (fibers_[t].wait == Wait::kNone) resume(t);
    }
  } while (release() && !broken_);
  if (broken_) fibers_.clear();  // Unwinds threads that are stuck.
}

void BlockRunner::start(uint32_t thread_number) {
  FiberThread& made = fibers_[thread_number];
  made.index = {thread_number % call_->block.x, thread_number / call_->block.x % call_->block.y,
                thread_number / (call_->block.x * call_->block.y)};
  made.wait = Wait::kNone;
  if (made.fiber) return;
  // Fibers are used again by later blocks and launches: with a sanitizer it takes 100 us to create
  // one.
  made.fiber =
      boost::context::fiber(std::allocator_arg, stacks(), [this](boost::context::fiber&& caller) {
        caller_ = std::move(caller);
        for (;;) {
          call_->kernel->call(*this, call_->arguments);
          wait_for(Wait::kDone);
        }
        return std::move(caller_);
      });
}

void BlockRunner::resume(uint32_t thread_number) {
  current_ = thread_number;
  thread = fibers_[thread_number].index;
  fibers_[thread_number].fiber = std::move(fibers_[thread_number].fiber).resume();
}

void BlockRunner::wait_for(Wait what) {
  const uint32_t self = current_;
  fibers_[self].wait = what;
  caller_ = std::move(caller_).resume();
  current_ = self;
  thread = fibers_[self].index;
}

// Releases the threads whose barrier is complete. False: the block has ended, or never will.
bool BlockRunner::release() {
  const std::span active(fibers_.data(), threads_);
  const auto waiting = [&](Wait what) {
    return static_cast<uint32_t>(std::count_if(
        active.begin(), active.end(), [&](const FiberThread& t) { return t.wait == what; }));
  };
  const uint32_t done = waiting(Wait::kDone);
  if (done == threads_) return false;
  if (release_warps()) return true;
  if (waiting(Wait::kBlock) == threads_) {
    ++barriers_;
    for (FiberThread& t : active) t.wait = Wait::kNone;
    return true;
  }
  report(Fault::kBarrier, cat("has a barrier that not all ", threads_, " threads of block ",
                              block_number_, " reach: ", done, " have ended"));
  broken_ = true;
  return false;
}

bool BlockRunner::release_warps() {
  bool any = false;
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    const uint32_t begin = w * cuda::kWarpThreads;
    const uint32_t end = std::min(threads_, begin + cuda::kWarpThreads);
    const Wait what = fibers_[begin].wait;
    if (what != Wait::kWarp && what != Wait::kShuffle) continue;
    const bool together = std::all_of(fibers_.begin() + begin, fibers_.begin() + end,
                                      [&](const FiberThread& t) { return t.wait == what; });
    if (!together || (what == Wait::kShuffle && end - begin < cuda::kWarpThreads)) continue;
    if (what == Wait::kWarp) ++warps_[w].barriers;
    if (what == Wait::kShuffle) ++warps_[w].shuffles;
    for (uint32_t t = begin; t < end; ++t) fibers_[t].wait = Wait::kNone;
    any = true;
  }
  return any;
}

void BlockRunner::sync_block() { wait_for(Wait::kBlock); }
void BlockRunner::sync_warp() { wait_for(Wait::kWarp); }

const uint64_t* BlockRunner::exchange(uint64_t bits) {
  const uint32_t lane = current_ % cuda::kWarpThreads;
  Warp& warp = warps_[current_ / cuda::kWarpThreads];
  // There are two sets of words, since a slow thread still reads one while others fill the next.
  auto& words = warp.words[warp.shuffles % 2];
  words[lane] = bits;
  wait_for(Wait::kShuffle);
  return words;
}

// Takes more shared memory, which is not initialised. False: there is too little.
bool BlockRunner::use_shared(size_t bytes) {
  const size_t end = shared_used_ + (bytes + 15) / 16 * 16;
  if (end > kSharedBytesMax) {
    report(Fault::kBounds,
           cat("uses ", end, " bytes of shared memory: expected at most ", kSharedBytesMax));
    return false;
  }
  if (shared_initialised_.size() < end) {
    shared_initialised_.resize(end);
    shared_marks_.resize(end);
  }
  std::fill(shared_initialised_.begin() + static_cast<ptrdiff_t>(shared_used_),
            shared_initialised_.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
  shared_used_ = end;
  return true;
}

void* BlockRunner::shared_array(const void* key, size_t bytes) {
  const auto known = arrays_.find(key);
  if (known != arrays_.end()) return shared_.get() + known->second;
  const size_t offset = shared_used_;
  if (!use_shared(bytes)) return harmless_;
  arrays_[key] = offset;
  return shared_.get() + offset;
}

void* BlockRunner::dynamic_shared() { return shared_.get(); }

const void* BlockRunner::load(const void* address, size_t bytes, size_t alignment) {
  const Place at = place(address, bytes, alignment, false);
  if (at.data == nullptr) return harmless_;
  if (std::find(at.initialised, at.initialised + bytes, 0) != at.initialised + bytes)
    report(Fault::kUninitialised, cat("reads memory that nothing has written", who()));
  note(at.marks, bytes, false);
  return at.data;
}

void* BlockRunner::store(void* address, size_t bytes, size_t alignment) {
  const Place at = place(address, bytes, alignment, true);
  if (at.data == nullptr) return harmless_;
  note(at.marks, bytes, true);
  std::fill_n(at.initialised, bytes, uint8_t{1});
  return at.data;
}

// All threads that raise a flag store the same value, so they race only with other accesses to it.
void BlockRunner::raise(uint32_t* flag) {
  constexpr size_t kBytes = sizeof(*flag);
  const Place at = place(flag, kBytes, alignof(uint32_t), true);
  if (at.data == nullptr) return;
  if (at.marks->launch != launch_ || at.marks->writer != kRaisers) note(at.marks, kBytes, true);
  for (size_t i = 0; i < kBytes; ++i) at.marks[i].writer = kRaisers;
  constexpr uint32_t kRaised = 1;
  std::memcpy(at.data, &kRaised, kBytes);
  std::fill_n(at.initialised, kBytes, uint8_t{1});
}

BlockRunner::Place BlockRunner::place(const void* address, size_t bytes, size_t alignment,
                                      bool writes) {
  const auto* at = static_cast<const std::byte*>(address);
  if (reinterpret_cast<uintptr_t>(at) % alignment != 0) {
    report(
        Fault::kMisaligned,
        cat("touches ", bytes, " bytes at an address that is no multiple of ", alignment, who()));
    return {};
  }
  if (at >= shared_.get() && at < shared_.get() + kSharedBytesMax) return shared_place(at, bytes);
  const auto fits = [&](const DeclaredRange& range) {
    return at >= range.begin && at + bytes <= range.end;
  };
  const auto allows = [&](const DeclaredRange& range) {
    return range.kind == cuda::AccessKind::kReadWrite ||
           (range.kind == cuda::AccessKind::kWrite) == writes;
  };
  bool declared = false;
  const size_t count = call_->ranges.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (last_range_ + i) % count;
    const DeclaredRange& range = call_->ranges[index];
    if (!fits(range)) continue;
    declared = true;
    if (!allows(range) || range.allocation->data == nullptr) continue;
    last_range_ = index;
    Allocation& in = *range.allocation;
    if (in.marks.empty()) in.marks.resize(static_cast<size_t>(in.bytes));
    const auto offset = static_cast<size_t>(at - in.base);
    return {in.data + offset, in.initialised.data() + offset, in.marks.data() + offset};
  }
  const char* what = writes ? "writes" : "reads";
  report(Fault::kBounds, declared ? cat(what, " what its launch declared otherwise", who())
                                  : cat(what, " outside of what its launch declared", who()));
  return {};
}

BlockRunner::Place BlockRunner::shared_place(const std::byte* address, size_t bytes) {
  const auto offset = static_cast<size_t>(address - shared_.get());
  const size_t dynamic = call_->shared_bytes;
  bool inside = offset + bytes <= dynamic;
  // Arrays lie in the order in which they were created; each ends where the next begins.
  for (const auto& [key, begin] : arrays_)
    inside = inside || (offset >= begin && offset + bytes <= shared_used_);
  if (!inside) {
    report(Fault::kBounds, cat("touches shared memory outside of its arrays", who()));
    return {};
  }
  return {shared_.get() + offset, shared_initialised_.data() + offset,
          shared_marks_.data() + offset};
}

// True if nothing orders the access of thread `other` - 1 and that of the current thread.
bool BlockRunner::races(uint32_t other, uint32_t block_barriers, uint32_t warp_barriers) const {
  const uint32_t self = block_number_ * threads_ + current_;
  if (other == 0 || other - 1 == self) return false;
  if ((other - 1) / threads_ != block_number_) return true;
  if (block_barriers != barriers_) return false;
  const uint32_t other_warp = (other - 1) % threads_ / cuda::kWarpThreads;
  const uint32_t warp = current_ / cuda::kWarpThreads;
  return other_warp != warp || warp_barriers == warps_[warp].barriers;
}

void BlockRunner::note(ThreadMark* marks, size_t bytes, bool writes) {
  const bool is_shared =
      marks >= shared_marks_.data() && marks < shared_marks_.data() + shared_marks_.size();
  const uint32_t launch = is_shared ? shared_launch_ : launch_;
  const uint32_t self = block_number_ * threads_ + current_ + 1;
  const uint32_t warp_barriers = warps_[current_ / cuda::kWarpThreads].barriers;
  for (size_t i = 0; i < bytes; ++i) {
    ThreadMark& mark = marks[i];
    if (mark.launch != launch) mark = {.launch = launch};
    bool race = races(mark.writer, mark.writer_block, mark.writer_warp);
    if (writes) {
      race = race || races(mark.reader, mark.reader_block, mark.reader_warp) ||
             races(mark.other, mark.other_block, mark.other_warp);
      mark.writer = self, mark.writer_block = barriers_, mark.writer_warp = warp_barriers;
    } else {
      if (mark.reader != self)
        mark.other = mark.reader, mark.other_block = mark.reader_block,
        mark.other_warp = mark.reader_warp;
      mark.reader = self, mark.reader_block = barriers_, mark.reader_warp = warp_barriers;
    }
    if (!race) continue;
    report(Fault::kThreadRace,
           cat(writes ? "writes" : "reads", is_shared ? " shared" : " global",
               " memory that another thread touches, with no barrier in between", who()));
    return;
  }
}

std::string BlockRunner::who() const {
  return cat(" (thread ", current_, " of block ", block_number_, ")");
}

void BlockRunner::report(Fault fault, const std::string& text) {
  reports_.add(fault, {}, call_->label, text);
}

}  // namespace gangway::emulated
