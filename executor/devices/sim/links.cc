#include "executor/devices/sim/links.h"

#include <cmath>

namespace gangway {
namespace {

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// `passes`: 2 if data goes up and down the tree.
int64_t level_ns(const SimLinkRate& link, double bytes, double members, int passes) {
  if (members <= 1) return 0;
  const auto hops = static_cast<int64_t>(passes * std::ceil(std::log2(members)));
  return hops * link.latency_ns +
         nanoseconds(passes * bytes * (members - 1) / members / link.bytes_per_s);
}

// Assumes that members are spread evenly: every host and every island has as many as this member's
// own.
struct Levels {
  explicit Levels(const PeerCounts& peers) {
    const auto others = [&](LinkClass link) {
      return static_cast<double>(peers[static_cast<size_t>(link)]);
    };
    in_host = 1 + others(LinkClass::kHost);
    in_island = in_host + others(LinkClass::kIsland);
    all = in_island + others(LinkClass::kBetweenIslands);
  }
  double in_host = 1, in_island = 1, all = 1;
};

// The slowest link between the members.
const SimLinkRate& slowest(const SimLinks& links, const PeerCounts& peers) {
  for (const LinkClass link : {LinkClass::kBetweenIslands, LinkClass::kIsland}) {
    if (peers[static_cast<size_t>(link)] > 0) return links.rate(link);
  }
  return links.host;
}

}  // namespace

int64_t SimLinks::collective_ns(CollectiveKind kind, double bytes, const PeerCounts& peers) const {
  const Levels members(peers);
  if (members.all <= 1) return collective_launch_ns;
  const SimLinkRate& last = slowest(*this, peers);
  const auto by_levels = [&](double all, int passes) {
    return level_ns(host, all, members.in_host, passes) +
           level_ns(island, all / members.in_host, members.in_island / members.in_host, passes) +
           level_ns(between, all / members.in_island, members.all / members.in_island, passes);
  };
  switch (kind) {
    case CollectiveKind::kAllReduce: return collective_launch_ns + by_levels(bytes, 2);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter: return collective_launch_ns + by_levels(bytes, 1);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kRaggedAllToAll: return all_to_all_ns(bytes, peers);
    case CollectiveKind::kPermute:
      return collective_launch_ns + last.latency_ns + nanoseconds(bytes / last.bytes_per_s);
    case CollectiveKind::kBroadcast: break;
  }
  // Only latencies add up.
  return collective_launch_ns + by_levels(0, 1) + nanoseconds(bytes / last.bytes_per_s);
}

int64_t SimLinks::all_to_all_ns(double bytes, const PeerCounts& peers) const {
  const double part = bytes / Levels(peers).all;
  int64_t total_ns = collective_launch_ns;
  for (size_t link = 0; link < peers.size(); ++link) {
    if (peers[link] > 0)
      total_ns += transfer_ns(static_cast<LinkClass>(link), std::llround(part * peers[link]));
  }
  return total_ns;
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
