// Segments: the parts of blocks that one lane moves between two hosts, in an order that both know,
// cut into messages where one is full.
//
// Every block is cut in as many ranges as there are lanes, and lane i has range i of each. So what
// a lane has received lies where the same lane finds it, when it is to be sent on.
//
// Threads: values. Cost: a walk keeps its capacity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/collectives/block.h"
#include "executor/collectives/hosts/bucket.h"

namespace gangway {

// Bytes [begin, end).
struct ByteRange {
  int64_t begin = 0, end = 0;
};

// Of so many bytes, the range of a lane: whole lines, but for the end.
inline ByteRange range_of_lane(int64_t bytes, uint32_t lane, uint32_t lanes) {
  const auto cut = [&](uint32_t index) {
    return index == lanes ? bytes : bytes * index / lanes / kLineBytes * kLineBytes;
  };
  return {cut(lane), cut(lane + 1)};
}

struct Segment {
  static constexpr uint32_t kAllMembers = ~uint32_t{0};

  Block block;
  ByteRange range;  // Of the block.
  // Of this host, by index: whose tensor is read or written. All of them: they get the same, and
  // what is sent on is read where it was received.
  uint32_t member = 0;
};

class SegmentWalk {
 public:
  void clear() {
    segments_.clear();
    next_ = 0;
  }
  void add(const Segment& segment) {
    if (segment.range.begin < segment.range.end) segments_.push_back(segment);
  }
  bool done() const { return next_ == segments_.size(); }

  // body(segment, begin, end) for what comes next, at most `bytes_max` in all: bytes of its block.
  // Returns how many there were.
  template <class Body>
  int64_t next(int64_t bytes_max, Body body) {
    int64_t left = bytes_max;
    while (left > 0 && !done()) {
      Segment& segment = segments_[next_];
      const int64_t n = std::min(left, segment.range.end - segment.range.begin);
      body(std::as_const(segment), segment.range.begin, segment.range.begin + n);
      segment.range.begin += n;
      left -= n;
      if (segment.range.begin == segment.range.end) ++next_;
    }
    return bytes_max - left;
  }

 private:
  std::vector<Segment> segments_;
  size_t next_ = 0;
};

}  // namespace gangway
