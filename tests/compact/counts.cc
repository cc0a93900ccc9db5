#include "tests/compact/counts.h"

#include "tests/support/heap_count.h"

namespace {

uint64_t steps;

uint64_t unsigned_of(int64_t bytes) { return static_cast<uint64_t>(bytes); }

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() { ++steps; }

namespace gangway::compact {

Counter::Counter() : steps_(steps), allocated_(heap_bytes_allocated()), held_(heap_bytes()) {
  restart_heap_peak();
}

Counts Counter::take() const {
  return {steps - steps_, unsigned_of(heap_bytes_allocated() - allocated_),
          unsigned_of(heap_peak_bytes() - held_)};
}

}  // namespace gangway::compact
