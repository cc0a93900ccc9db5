// SimLinks: the committed table of the links between simulated devices: inside a host, inside an
// island, between islands.
//
// Round figures of one generation of such links. They are part of what a simulation's replay hash
// covers, so a change here changes every simulated run.
//
// An all-reduce goes by levels, as NCCL's do if links differ: the devices of a host reduce, each
// its part; then each part is reduced over the hosts of an island, and the rest over the islands;
// then the same back. A level of n members moves 2 (n-1)/n of its bytes, and its latency grows with
// log2(n). A reduce-scatter is the first half of it, an all-gather the second. In an all-to-all
// each member sends every other one its part, over one link after the other. A permute is one
// transfer over the slowest link that it may need, a broadcast a pipeline over all levels.
// Threads: pure.
#pragma once

#include <array>
#include <cstdint>

#include "executor/collectives/collective_kind.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

struct SimLinkRate {
  int64_t latency_ns = 0;
  double bytes_per_s = 0;
};

struct SimLinks {
  int64_t collective_launch_ns = 10'000;
  SimLinkRate host{.latency_ns = 1'000, .bytes_per_s = 200e9};
  SimLinkRate island{.latency_ns = 5'000, .bytes_per_s = 50e9};
  SimLinkRate between{.latency_ns = 50'000, .bytes_per_s = 12.5e9};

  // `bytes`: the larger of what a member gives and what it gets.
  int64_t collective_ns(CollectiveKind kind, double bytes, const PeerCounts& peers) const;
  int64_t transfer_ns(LinkClass link, int64_t bytes) const;
  const SimLinkRate& rate(LinkClass link) const;

 private:
  int64_t all_to_all_ns(double bytes, const PeerCounts& peers) const;
};

}  // namespace gangway
