#include "tests/support/heap_count.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> held{0}, peak{0}, allocated{0};
thread_local int64_t blocks = 0;

// Returns null if there is no memory.
void* counted(std::size_t bytes) noexcept {
  void* block = std::malloc(bytes > 0 ? bytes : 1);
  if (block == nullptr) return block;
  ++blocks;
  const auto size = static_cast<int64_t>(malloc_usable_size(block));
  allocated.fetch_add(size, std::memory_order_relaxed);
  const int64_t now = held.fetch_add(size, std::memory_order_relaxed) + size;
  int64_t most = peak.load(std::memory_order_relaxed);
  while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return block;
}

void* counted_or_abort(std::size_t bytes) {
  if (void* block = counted(bytes)) return block;
  std::abort();
}

// Not inline: the compiler would see free() where it expects the counterpart of operator new.
[[gnu::noinline]] void freed(void* block) noexcept {
  if (block != nullptr)
    held.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_or_abort(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_abort(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
[[gnu::noinline]] void operator delete(void* block) noexcept { freed(block); }
[[gnu::noinline]] void operator delete[](void* block) noexcept { freed(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { freed(block); }
[[gnu::noinline]] void operator delete[](void* block, std::size_t) noexcept { freed(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  freed(block);
}
[[gnu::noinline]] void operator delete[](void* block, const std::nothrow_t&) noexcept {
  freed(block);
}

namespace gangway {

int64_t heap_bytes() { return held.load(std::memory_order_relaxed); }
int64_t heap_peak_bytes() { return peak.load(std::memory_order_relaxed); }
void restart_heap_peak() { peak.store(heap_bytes(), std::memory_order_relaxed); }
int64_t heap_bytes_allocated() { return allocated.load(std::memory_order_relaxed); }
int64_t heap_blocks_of_thread() { return blocks; }

}  // namespace gangway
