// Segments: the parts of blocks that one channel moves between two hosts, in an order that both
// know, cut into messages when one is full.
//
// Every block is cut into as many ranges as there are channels, and channel i has range i of each.
// Data that a channel has received is thus found by the same channel when it is to be sent on.
//
// Threads: values. Cost: a walk keeps its capacity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "executor/collectives/block.h"
#include "executor/collectives/hosts/bucket.h"

namespace gangway {

// Bytes [begin, end).
struct ByteRange {
  int64_t begin = 0, end = 0;
};

// The range of a channel of `bytes` bytes: whole lines, except at the end.
inline ByteRange range_of_channel(int64_t bytes, uint32_t channel, uint32_t channels) {
  if (channels == 1) return {0, bytes};
  const auto cut = [&](uint32_t index) {
    return index == channels ? bytes : bytes * index / channels / kLineBytes * kLineBytes;
  };
  return {cut(channel), cut(channel + 1)};
}

struct Segment {
  static constexpr uint32_t kAllMembers = ~uint32_t{0};

  Block block;
  ByteRange range;  // Range of the block.
  // Index of the member of this host whose tensor is read or written. kAllMembers: all members get
  // the same, and data that is sent on is read where it was received.
  uint32_t member = 0;
};

class SegmentWalk {
 public:
  void clear() {
    segments_.clear();
    bytes_ = 0;
    restart();
  }
  void add(const Segment& segment) {
    const int64_t bytes = segment.range.end - segment.range.begin;
    if (bytes <= 0) return;
    segments_.push_back(segment);
    bytes_ += bytes;
    left_ += bytes;
  }
  // Begins with the first segment again.
  void restart() {
    next_ = 0;
    taken_ = 0;
    left_ = bytes_;
  }
  // Bytes that are left, to the end.
  int64_t left() const { return left_; }
  bool done() const { return left_ == 0; }

  // body(segment, begin, end), in bytes of the segment's block, for the next `bytes` bytes, which
  // must not be more than are left.
  template <class Body>
  void next(int64_t bytes, Body body) {
    left_ -= bytes;
    while (bytes > 0) {
      const Segment& segment = segments_[next_];
      const int64_t begin = segment.range.begin + taken_;
      const int64_t n = std::min(bytes, segment.range.end - begin);
      body(segment, begin, begin + n);
      bytes -= n;
      taken_ += n;
      if (begin + n < segment.range.end) return;
      ++next_;
      taken_ = 0;
    }
  }

 private:
  std::vector<Segment> segments_;
  size_t next_ = 0;
  int64_t taken_ = 0;  // Bytes taken of the next one.
  int64_t bytes_ = 0, left_ = 0;
};

}  // namespace gangway
