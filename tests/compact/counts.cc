#include "tests/compact/counts.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

uint64_t steps, bytes, held, peak;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const uint64_t size = malloc_usable_size(memory);
  bytes += size;
  held += size;
  peak = std::max(peak, held);
  return memory;
}

void release(void* memory) noexcept {
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() { ++steps; }

void* operator new(size_t size) { return counted(std::malloc(std::max<size_t>(size, 1))); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(std::max<size_t>(size, 1));
  return memory == nullptr ? nullptr : counted(memory);
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }

namespace gangway::compact {

Counter::Counter() : steps_(steps), bytes_(bytes), held_(held) { peak = held; }

Counts Counter::take() const { return {steps - steps_, bytes - bytes_, peak - held_}; }

}  // namespace gangway::compact
