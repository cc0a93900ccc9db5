// SimRates: the committed table that turns work into modelled time.
//
// Round figures of one accelerator of the class that Gangway is for; they are part of what a
// simulation's trace hash covers, so a change here changes every simulated run. Units: flops and
// bytes a second, nanoseconds.
// Threads: pure.
#pragma once

#include <algorithm>
#include <cmath>

#include "executor/devices/cpu/cpu_function.h"

namespace gangway {

struct SimRates final : StepTimer {
  double flops_per_s = 100e12;
  double memory_bytes_per_s = 2e12;
  double link_bytes_per_s = 200e9;
  int64_t launch_ns = 3'000;
  int64_t collective_latency_ns = 10'000;

  int64_t step_ns(double flops, double bytes) const override {
    const double seconds = std::max(flops / flops_per_s, bytes / memory_bytes_per_s);
    return launch_ns + std::llround(seconds * 1e9);
  }
  // A ring: each device sends and receives twice the bucket, less one part.
  int64_t collective_ns(double bytes, uint32_t ranks) const override {
    const double moved = 2.0 * bytes * (ranks - 1) / ranks;
    return collective_latency_ns + std::llround(moved / link_bytes_per_s * 1e9);
  }
};

}  // namespace gangway
