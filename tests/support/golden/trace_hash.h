// The hash of a trace, by which tests compare simulated runs from one seed.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/hash.h"
#include "runtime/observe/trace.h"

namespace gangway {

// A hash of names, times and arguments in their order.
inline Hash128 trace_hash(const TraceDump& dump) {
  Hasher hasher;
  for (const TraceThread& thread : dump.threads) {
    hasher.add(thread.name);
    hasher.add(thread.lost);
    for (const TraceEvent& event : thread.events) {
      hasher.add(std::string_view(event.name));
      hasher.add(static_cast<uint64_t>(event.begin_ns));
      hasher.add(static_cast<uint64_t>(event.end_ns));
      hasher.add(event.run);
      hasher.add(event.node);
      hasher.add(event.step);
      hasher.add(uint64_t{static_cast<uint8_t>(event.mark)});
    }
  }
  return hasher.finish();
}

}  // namespace gangway
