// RankArea: one member's part of the shared memory in which a group meets.
//
//   RankHeader | staging: what this member contributes, then its reduced chunk, staging_bytes
//
// Invariants: only its owner writes an area. Counters hold the number of the collective that has
// come so far and only grow. Flags and words have two places, by the parity of that number: a
// member that is one collective ahead never overwrites what a slower one still reads. All zero is a
// valid start.
// Threads: counters are atomic; the rest is published by them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace gangway {

struct alignas(64) RankHeader {
  std::atomic<uint64_t> published{0};  // My tensors are in staging; my word and flag stand.
  uint64_t words[2] = {0, 0};
  uint64_t poisoned[2] = {0, 0};
  std::atomic<uint64_t> alarm{0};
  alignas(64) std::atomic<uint64_t> reduced{0};  // My chunk of the result is in my staging.
  std::atomic<uint64_t> done{0};                 // I have read all that I need of the others.
};

struct RankArea {
  RankHeader* header = nullptr;
  std::byte* staging = nullptr;

  static int64_t bytes(int64_t staging_bytes) {
    return static_cast<int64_t>(sizeof(RankHeader)) + staging_bytes;
  }
  static RankArea at(std::byte* data) {
    return {reinterpret_cast<RankHeader*>(data), data + sizeof(RankHeader)};
  }
};

}  // namespace gangway
