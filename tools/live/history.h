// History: the numbers that each program of a cluster has reported, and its part of the devices,
// over time.
//
// Bounds: kProgramsMax programs, of which those that ended first are forgotten first, and
// kPointsMax points of each. If a program has more, every second point is left out, so that the
// points of a program of days are spread over its whole life.
//
// Threads: one. Cost: O(programs) a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "client/status.h"

namespace gangway::tool {

class History {
 public:
  static constexpr size_t kProgramsMax = 64, kPointsMax = 512;

  // `time_ms`: since 1970; ascending. Leaves out programs that have no devices and have reported
  // nothing.
  void add(const ClusterStatus& status, int64_t time_ms);

  // {"sample": its number, "since_ms": time of the first sample, "programs": [{"id", "program",
  //   "owner", "ended", "points": [[sample, time_ms, step, loss, tokens_per_s, share], ...]}]}: all
  // programs, with the points of samples behind `after`. Numbers that a program has not reported
  // are null. "share" is its part of the time of all devices of the cluster.
  std::string to_json(uint64_t after) const;

 private:
  struct Point {
    uint64_t sample = 0;
    int64_t time_ms = 0;
    double step = 0, loss = 0, tokens_per_s = 0, share = 0;
  };
  struct Line {
    uint64_t id = 0;
    std::string program, owner;
    bool has_ended = false;
    uint64_t stride = 1;  // Every so many samples one becomes a point.
    std::vector<Point> points = {};
  };
  Line& line_of(const ProgramStatus& program);
  void make_room();

  uint64_t sample_ = 0;
  int64_t since_ms_ = 0;
  std::deque<Line> lines_;  // In the order in which they began.
};

}  // namespace gangway::tool
