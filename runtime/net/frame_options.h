// FrameOptions: options with which a frame stream (frames.h) is created. For headers that pass them
// on: it pulls in nothing of Cap'n Proto.
//
// Threads: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/net/pacer.h"

namespace gangway {

struct FrameOptions {
  std::string name = "peer";            // The peer's name, for errors.
  size_t frame_bytes_max = 64u << 20;   // Larger frames are refused, sent or received.
  size_t queued_bytes_max = 32u << 20;  // The stream ends if more stays unacknowledged.
  int64_t reconnect_ms = 10'000;        // The stream ends if a lost connection is not back by then.
  Pacer* pacer = nullptr;               // A simulated process's; null in a real one.
};

}  // namespace gangway
