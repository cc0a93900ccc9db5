// History: what each program of a cluster has said of itself, and had of its devices, over time.
//
// Bounds: kProgramsMax programs, of which those that ended first are forgotten first, and
// kPointsMax points of each: where there are more, every second one is left out, so that a program
// of days has points as far apart as its whole length asks for.
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

  // `time_ms`: since 1970; rises. Who has no devices and has said nothing is left out.
  void add(const ClusterStatus& status, int64_t time_ms);

  // {"sample": its number, "since_ms": when the first was taken, "programs": [{"id", "program",
  //   "owner", "ended", "points": [[sample, time_ms, step, loss, tokens_per_s, share], ...]}]}: the
  // points of samples behind `after`, and all programs. What a program has not said is null.
  // "share" is its part of the time of all devices of the cluster.
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
    uint64_t stride = 1;  // Of samples, of which one becomes a point.
    std::vector<Point> points = {};
  };
  Line& line_of(const ProgramStatus& program);
  void make_room();

  uint64_t sample_ = 0;
  int64_t since_ms_ = 0;
  std::deque<Line> lines_;  // In the order in which they began.
};

}  // namespace gangway::tool
