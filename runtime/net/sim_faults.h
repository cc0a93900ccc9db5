// FaultyFrames: one direction of a simulated connection of frames, on which single frames are lost,
// repeated, swapped and delayed.
//
// Threads: the reactor's thread.
#pragma once

#include <kj/common.h>

#include <functional>
#include <vector>

#include "runtime/fibers/clock.h"

namespace gangway {

// The fault that one frame suffers on its way.
struct FrameFault {
  enum class Kind : uint8_t {
    kNothing,
    kDrop,
    kDuplicate,
    kSwap,   // The next one overtakes it.
    kDelay,  // It and those after it arrive later, by `delay`.
    kBreak,  // Half of it arrives, and the connection ends.
  };
  Kind kind = Kind::kNothing;
  Duration delay{0};
};

namespace internal {

class FaultyFrames {
 public:
  struct Piece {
    std::vector<kj::byte> bytes;
    Duration delay{0};
  };
  struct Outcome {
    std::vector<Piece> pieces;
    bool broken = false;  // Whether the connection breaks after the last piece.
  };
  // `bytes` holds whole frames, as FrameLink writes them; `draw` is asked for each.
  Outcome pass(kj::ArrayPtr<const kj::byte> bytes, const std::function<FrameFault()>& draw);

 private:
  std::vector<kj::byte> held_;  // Waits for another frame to overtake it.
};

}  // namespace internal
}  // namespace gangway
