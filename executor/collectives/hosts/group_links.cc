#include "executor/collectives/hosts/group_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "executor/collectives/hosts/group_collective.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

std::string edge_area(const GroupView& group, uint32_t channel, uint32_t from) {
  return cat("lane ", group.name, " ", channel, " ", from);
}
std::string abort_area(const GroupView& group, uint32_t from) {
  return cat("alarm ", group.name, " ", from);
}

uint32_t host_count(const GroupView& group) { return static_cast<uint32_t>(group.hosts.size()); }

// Number of channels; a channel has a member on every host.
uint32_t channels_of(const GroupView& group) {
  return std::ranges::min(group.hosts, {}, &GroupView::OnHost::count).count;
}

int64_t small_bytes(const GroupView& group) {
  return std::min(group.bytes_max, GroupCollective::kSmallBytes);
}

// A partial has at most twice the bytes of its tensor.
int64_t piece_bytes(const GroupView& group) {
  const int64_t channel = ceil_div(2 * group.bytes_max, channels_of(group));
  return std::min(align_up(channel, kLineBytes) + kLineBytes, HostReduce::kPieceBytes);
}

bool has_large(const GroupView& group) { return group.bytes_max > GroupCollective::kSmallBytes; }

// Layout of the area that host `from` writes at host `to`.
EdgeLayout layout_of(const GroupView& group, uint32_t channel, uint32_t from, uint32_t to) {
  EdgeLayout layout;
  if (channel == 0) {
    layout.small_stride = kMessageHead + align_up(2 * small_bytes(group), kLineBytes);
    layout.bytes = 2 * layout.small_stride;
  }
  if (!has_large(group)) return layout;
  const HostSchedule schedule = reduce_schedule(host_count(group), to);
  for (const HostStep& step : schedule.steps) {
    const bool partials = step.kind == HostStep::Kind::kCombine;
    if (step.peer != from || (!partials && step.kind != HostStep::Kind::kTake)) continue;
    (partials ? layout.partials : layout.results) = layout.bytes;
    const int64_t lines = piece_bytes(group) / kLineBytes;
    const int64_t part = lines * (step.end - step.begin) / schedule.chunks + 2;
    layout.bytes += kMessageHead + part * kLineBytes;
  }
  return layout;
}

// The hosts that this one exchanges with on a channel, ascending.
std::vector<uint32_t> peers_of(const GroupView& group, uint32_t channel) {
  std::vector<uint32_t> peers;
  const auto add = [&](const HostSchedule& schedule) {
    for (const HostStep& step : schedule.steps) {
      if (step.kind != HostStep::Kind::kFinish) peers.push_back(step.peer);
    }
  };
  if (channel == 0) add(exchange_schedule(host_count(group), group.self));
  if (has_large(group)) add(reduce_schedule(host_count(group), group.self));
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::vector<HostEdge> edges_of(const GroupView& group, uint32_t channel, const GroupLinks& links) {
  std::vector<HostEdge> edges;
  for (const uint32_t peer : peers_of(group, channel)) {
    const GroupView::OnHost& host = group.hosts[peer];
    HostEdge edge{.host = peer,
                  .device = host.members[channel].device,
                  .link = host.link,
                  .to = layout_of(group, channel, group.self, peer),
                  .from = layout_of(group, channel, peer, group.self)};
    edge.peer = &links.memory_of(host.host, edge.device);
    edge.there = edge.peer->place(edge_area(group, channel, group.self), edge.to.bytes);
    edge.here = links.memory->place(edge_area(group, channel, peer), edge.from.bytes);
    edges.push_back(edge);
  }
  return edges;
}

// Whether members of the group move tensors between hosts, besides buckets.
bool has_streams(const GroupView& group) {
  return group.kinds.has_moves() && group.bytes_max > 0 && host_count(group) > 1;
}

std::string stream_area(const GroupView& group, uint32_t channel, uint32_t from) {
  return cat("stream ", group.name, " ", channel, " ", from);
}

// A group of many hosts has small messages, so that all of them fit.
int64_t stream_piece_bytes(const GroupView& group) {
  constexpr int64_t kMost = int64_t{256} << 10, kLeast = int64_t{16} << 10, kAll = int64_t{4} << 20;
  const int64_t bound = std::clamp(kAll / host_count(group), kLeast, kMost);
  return std::min(align_up(2 * group.bytes_max, kLineBytes), align_up(bound, kLineBytes));
}

// Whether there is an edge between this host and another, in either direction.
bool has_edge(const GroupView& group, uint32_t peer) {
  return HostRoutes::has(group.kinds, host_count(group), group.self, peer) ||
         HostRoutes::has(group.kinds, host_count(group), peer, group.self);
}

// Bytes of the area that host `from` writes at host `to`.
int64_t stream_bytes(const GroupView& group, uint32_t from, uint32_t to) {
  return StreamEdge::area_bytes(HostRoutes::has(group.kinds, host_count(group), from, to),
                                stream_piece_bytes(group));
}

StreamEdges stream_edges_of(const GroupView& group, uint32_t channel, const GroupLinks& links) {
  StreamEdges edges;
  for (uint32_t peer = 0; peer < host_count(group); ++peer) {
    if (!has_edge(group, peer)) continue;
    const GroupView::OnHost& host = group.hosts[peer];
    StreamEdge::Ends ends{.host = peer,
                          .link = host.link,
                          .device = host.members[channel].device,
                          .memory = links.memory.get(),
                          .piece_bytes = stream_piece_bytes(group)};
    ends.peer = &links.memory_of(host.host, ends.device);
    ends.there = ends.peer->place(stream_area(group, channel, group.self),
                                  stream_bytes(group, group.self, peer));
    ends.here = links.memory->place(stream_area(group, channel, peer),
                                    stream_bytes(group, peer, group.self));
    edges.emplace_back(ends);
  }
  return edges;
}

void add_streams(const GroupView& group, const GroupLinks& links, GroupPart& part) {
  part.edges = std::make_unique<StreamEdges>(stream_edges_of(group, part.index, links));
  ChannelView view{.self = group.self,
                   .size = group.size,
                   .channel = part.index,
                   .channels = part.channels,
                   .index = part.index,
                   .meter = part.meter};
  for (const GroupView::OnHost& host : group.hosts) {
    std::vector<uint32_t>& ranks = view.ranks.emplace_back();
    for (const GroupView::Member& member : host.members) ranks.push_back(member.rank);
  }
  if (group.kinds.has(CollectiveKind::kReduceScatter))
    part.scatter = std::make_unique<HostScatter>(view, *part.edges, stream_piece_bytes(group));
  part.move = std::make_unique<HostMove>(std::move(view), *part.edges);
}

std::shared_ptr<const AbortFlags> abort_flags_of(const GroupView& group, const GroupLinks& links) {
  if (!group.abort_flags) return nullptr;
  std::vector<AbortFlags::Words> words;
  std::vector<AbortFlags::Host> hosts;
  const std::string mine = abort_area(group, group.self);
  for (uint32_t h = 0; h < host_count(group); ++h) {
    const GroupView::OnHost& host = group.hosts[h];
    words.push_back(
        {links.memory->place(abort_area(group, h), AbortFlags::bytes(host.count)), host.count});
    AbortFlags::Host to;
    for (const GroupView::Member& member : host.members) {
      to.memory = &links.memory_of(host.host, member.device);
      to.devices.push_back(member.device);
    }
    to.words =
        to.memory->place(mine, AbortFlags::bytes(static_cast<uint32_t>(group.here().size())));
    hosts.push_back(std::move(to));
  }
  return std::make_shared<const AbortFlags>(*links.memory, std::move(words), std::move(hosts));
}

void find_self(GroupView& group, uint32_t host) {
  const auto mine = std::ranges::find(group.hosts, host, &GroupView::OnHost::host);
  GW_ASSERT(mine != group.hosts.end(), "a group without a member here");
  group.self = static_cast<uint32_t>(mine - group.hosts.begin());
}

// The peers of any member here.
PeerCounts peer_counts(const GroupView& group) {
  PeerCounts counts{};
  for (const GroupView::OnHost& host : group.hosts)
    counts[static_cast<size_t>(host.link)] += host.count;
  --counts[static_cast<size_t>(LinkClass::kHost)];
  return counts;
}

}  // namespace

GroupView group_of(std::string name, std::span<const GroupDevice> devices, uint32_t self,
                   int64_t bytes_max, bool abort_flags,
                   const std::function<LinkClass(uint32_t host)>& link) {
  GroupView group{.name = std::move(name),
                  .size = static_cast<uint32_t>(devices.size()),
                  .bytes_max = bytes_max,
                  .abort_flags = abort_flags};
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    const uint32_t of = devices[rank].host;
    // Most ranks are on the same host as the one before.
    auto host = group.hosts.empty() || group.hosts.back().host != of
                    ? std::ranges::find(group.hosts, of, &GroupView::OnHost::host)
                    : group.hosts.end() - 1;
    if (host == group.hosts.end()) host = group.hosts.insert(host, {of, link(of), 0, {}});
    host->members.push_back({rank, devices[rank].device});
    ++host->count;
  }
  find_self(group, self);
  return group;
}

GroupView exchange_of(std::string name, std::span<const MembersOfHost> hosts, uint32_t self,
                      std::span<const uint32_t> devices_here,
                      const std::function<LinkClass(uint32_t host)>& link) {
  GroupView group{.name = std::move(name)};
  for (const MembersOfHost& from : hosts) {
    GroupView::OnHost& to = group.hosts.emplace_back();
    to = {from.host, link(from.host), from.members, {{group.size, from.first_device}}};
    if (from.host == self) {
      GW_ASSERT(devices_here.size() == from.members, "a group with ", from.members,
                " members here, ", devices_here.size(), " are known");
      to.members.clear();
      for (uint32_t m = 0; m < from.members; ++m)
        to.members.push_back({group.size + m, devices_here[m]});
    }
    group.size += from.members;
  }
  find_self(group, self);
  return group;
}

void carry_sizes(GroupView& group, CollectiveKinds kinds) {
  if (!kinds.has(CollectiveKind::kRaggedAllToAll)) return;
  group.bytes_max = int64_t{group.size} * static_cast<int64_t>(sizeof(int32_t));
  group.kinds.add(CollectiveKind::kAllToAll);
}

void for_each_area(const GroupView& group, uint32_t index,
                   const std::function<void(const std::string&, int64_t)>& body) {
  for (uint32_t from = 0; group.abort_flags && index == 0 && from < host_count(group); ++from)
    body(abort_area(group, from), AbortFlags::bytes(group.hosts[from].count));
  if (index >= channels_of(group)) return;
  for (const uint32_t peer : peers_of(group, index))
    body(edge_area(group, index, peer), layout_of(group, index, peer, group.self).bytes);
  for (uint32_t peer = 0; has_streams(group) && peer < host_count(group); ++peer) {
    if (has_edge(group, peer))
      body(stream_area(group, index, peer), stream_bytes(group, peer, group.self));
  }
}

int64_t private_bytes(const GroupView& group, uint32_t index) {
  const int64_t small = align_up(small_bytes(group), kLineBytes);
  int64_t bytes = (index == 0 ? 3 : 2) * small;
  if (host_count(group) == 1) return bytes;
  if (index == 0) bytes += 2 * small;
  if (index < channels_of(group) && has_large(group)) bytes += piece_bytes(group);
  if (index < channels_of(group) && has_streams(group) &&
      group.kinds.has(CollectiveKind::kReduceScatter))
    bytes += stream_piece_bytes(group);
  return bytes;
}

std::vector<uint32_t> hosts_written(const GroupView& group) {
  std::set<uint32_t> hosts;  // Other channels have no peers that channel 0 lacks.
  for (const uint32_t peer : peers_of(group, 0)) hosts.insert(group.hosts[peer].host);
  for (uint32_t peer = 0; peer < host_count(group); ++peer) {
    if (group.abort_flags || (has_streams(group) && has_edge(group, peer)))
      hosts.insert(group.hosts[peer].host);
  }
  hosts.erase(group.hosts[group.self].host);
  return {hosts.begin(), hosts.end()};
}

std::vector<std::unique_ptr<Collective>> join_group(const GroupView& group,
                                                    const GroupLinks& links) {
  const auto rendezvous = std::make_shared<HostRendezvous>(links.bells, small_bytes(group));
  const auto abort_flags = abort_flags_of(group, links);
  const bool alone = host_count(group) == 1;
  std::vector<std::unique_ptr<Collective>> members;
  for (uint32_t index = 0; index < group.here().size(); ++index) {
    GroupPart part{.index = index,
                   .size = group.size,
                   .bytes_max = group.bytes_max,
                   .rendezvous = rendezvous,
                   .hosts = host_count(group),
                   .channels = alone ? 0 : channels_of(group),
                   .abort_flags = abort_flags,
                   .meter = links.meters[index],
                   .peers = peer_counts(group)};
    const std::vector<GroupView::Member>& here = group.here();
    for (uint32_t m = 0; m < here.size(); ++m) {
      part.ranks.push_back(here[m].rank);
      if (here[m].device == here[index].device) part.beside.push_back(m);
    }
    if (index < part.channels) {
      const std::vector<HostEdge> edges = edges_of(group, index, links);
      if (index == 0)
        part.exchange = std::make_unique<HostExchange>(
            exchange_schedule(host_count(group), group.self), edges, *links.memory, part.meter);
      if (has_large(group))
        part.reduce =
            std::make_unique<HostReduce>(reduce_schedule(host_count(group), group.self), edges,
                                         *links.memory, part.meter, piece_bytes(group));
    }
    if (index < part.channels && has_streams(group)) add_streams(group, links, part);
    members.push_back(std::make_unique<GroupCollective>(std::move(part)));
  }
  return members;
}

}  // namespace gangway
