// What a client asks for so that its program goes on when a host is lost: checkpoints of the states
// that are named in one of its slices, and the axes along which its meshes may shrink.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway {

struct RecoveryOptions {
  uint64_t every = 0;  // Versions between two checkpoints; at least 1.
  int keep = 2;        // So many of the newest stay on the disk.
  // Axes of the slice's meshes whose size may be halved, again and again, the first ones first,
  // where too few devices are left; empty: the program waits for as many devices as it had.
  std::vector<std::string> elastic;

  friend bool operator==(const RecoveryOptions&, const RecoveryOptions&) = default;
};

}  // namespace gangway
