// FrameOptions: what a frame stream (frames.h) is told when it is created. For headers that pass
// them on: it pulls in nothing of Cap'n Proto.
//
// Threads: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/net/pacer.h"

namespace gangway {

// Bugs that a test plants to show that it would find them.
struct PlantedFrameBugs {
  bool resends_one_too_late = false;  // After a reconnect the first frame to repeat is left out.
  bool ignores_gaps = false;          // A frame that is not the next one is taken as if it were.
  bool acknowledges_nothing = false;
};

struct FrameOptions {
  std::string name = "peer";            // Who is at the other end, for errors.
  size_t frame_bytes_max = 64u << 20;   // A larger one, either way, is refused.
  size_t queued_bytes_max = 32u << 20;  // A peer that leaves more unacknowledged is given up.
  int64_t reconnect_ms = 10'000;        // A connection that was lost is back by then, or given up.
  Pacer* pacer = nullptr;               // Of a simulated process; null: a real one.
  PlantedFrameBugs planted;
};

}  // namespace gangway
