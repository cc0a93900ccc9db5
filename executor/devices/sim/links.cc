#include "executor/devices/sim/links.h"

#include <cmath>

namespace gangway {
namespace {

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

int64_t level_ns(const SimLinkRate& link, double bytes, double members) {
  if (members <= 1) return 0;
  const auto hops = static_cast<int64_t>(2 * std::ceil(std::log2(members)));
  return hops * link.latency_ns +
         nanoseconds(2 * bytes * (members - 1) / members / link.bytes_per_s);
}

}  // namespace

// As if the members lay evenly: every host and every island has as many as this member's own.
int64_t SimLinks::all_reduce_ns(double bytes, const PeerCounts& peers) const {
  const auto others = [&](LinkClass link) {
    return static_cast<double>(peers[static_cast<size_t>(link)]);
  };
  const double in_host = 1 + others(LinkClass::kHost);
  const double in_island = in_host + others(LinkClass::kIsland);
  const double all = in_island + others(LinkClass::kBetweenIslands);
  return collective_launch_ns + level_ns(host, bytes, in_host) +
         level_ns(island, bytes / in_host, in_island / in_host) +
         level_ns(between, bytes / in_island, all / in_island);
}

int64_t SimLinks::transfer_ns(LinkClass link, int64_t bytes) const {
  return rate(link).latency_ns + nanoseconds(static_cast<double>(bytes) / rate(link).bytes_per_s);
}

const SimLinkRate& SimLinks::rate(LinkClass link) const {
  switch (link) {
    case LinkClass::kHost: return host;
    case LinkClass::kIsland: return island;
    case LinkClass::kBetweenIslands: break;
  }
  return between;
}

}  // namespace gangway
