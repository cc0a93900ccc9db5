// ConversionCosts: by what the steps of a conversion are compared (plan_conversion.h).
//
// A collective takes `latency_ps` and, for each byte that a member sends, what the slowest link
// between members takes; a step without traffic takes `launch_ps`. Integers, so that sums do not
// depend on their order and every process chooses the same path.
//
// `distance` settles ties alone. A slice may lie on one host or on many: what a strategy's
// collectives are, and in which order sums are added, stays the same, and collectives use what is
// near themselves (docs/collectives.md); but of two orders of the same moves the better is taken.
// Threads: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gangway {

struct ConversionCosts {
  int64_t launch_ps = 500'000;
  int64_t latency_ps = 10'000'000;
  // For each mesh axis: the cost of the slowest class of link between devices that differ in this
  // coordinate. Axes behind its end have links of kLinkPsPerByte.
  std::vector<int64_t> link_ps_per_byte;

  static constexpr int64_t kLinkPsPerByte = 250;  // 4 GB/s

  // For each mesh axis: the distance between devices that differ in this coordinate, from 0, in one
  // host, to kDistances - 1. Axes behind its end: 0.
  std::vector<int> distance = {};

  static constexpr size_t kDistances = 3;
};

}  // namespace gangway
