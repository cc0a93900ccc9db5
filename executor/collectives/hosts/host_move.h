// HostMove: one channel of a collective that moves parts of tensors between hosts unchanged.
//
//   all_gather              at distance 1, 2, 4, ...: a host sends what it has, its own and what it
//                           received, to the host that far behind it, until all have all
//   collective_broadcast    the same distances, from the root's host: a host that has the tensor
//                           sends it on, all others send an empty message
//   all others              each host sends each other host the bytes for it, or an empty message
//
// The first is the dissemination of Bruck et al. 1997, the second a binomial tree. Either way each
// host gets a message that depends on every other host, and so learns whether any member is
// poisoned. A permute over many hosts is the exception: it sends to few of them, and
// GroupCollective asks the others.
//
// Invariants
//  - Hosts agree on the size of every message without exchanging it: both sides walk the same
//    segments.
//  - A channel receives into tensors of all members of its host, each byte in one channel only.
//  - Poisoned members send their tensors as they are.
//
// Threads: the member's device.
// Ownership: edges and memory are the plan's; tensors belong to members that wait for one another.
// Cost: docs/collectives.md.
#pragma once

#include <span>
#include <vector>

#include "executor/collectives/hosts/local_move.h"
#include "executor/collectives/hosts/segments.h"
#include "executor/collectives/hosts/stream_edge.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

// The hosts that send to one another in the collectives of HostMove and HostScatter.
struct HostRoutes {
  // Whether `kinds` have a message from host `from` of `hosts` to host `to`.
  static bool has(CollectiveKinds kinds, uint32_t hosts, uint32_t from, uint32_t to);
  // Whether each host gets messages that depend on all others in such a collective.
  static bool reach_all(CollectiveKind kind, uint32_t hosts) {
    constexpr uint32_t kFewHosts = 4;
    return kind != CollectiveKind::kPermute || hosts <= kFewHosts;
  }
};

// A channel of a group, as seen by one of its hosts.
struct ChannelView {
  std::vector<std::vector<uint32_t>> ranks;  // Ranks of each host's members; hosts by lowest rank.
  uint32_t self = 0;                         // Index of this host among them.
  uint32_t size = 0;                         // Members on all hosts.
  uint32_t channel = 0, channels = 1;
  uint32_t index = 0;  // Index of the member here that works on the channel.
  LinkMeter* meter = nullptr;

  uint32_t hosts() const { return static_cast<uint32_t>(ranks.size()); }
};

class HostMove {
 public:
  HostMove(ChannelView view, StreamEdges& edges);

  // `members`: those of this host; must live until it is done. `poisoned`: whether one of them is.
  void begin(const HostMembers& members, bool poisoned);
  Progress advance();
  // Once done: whether a member of any host that sent to this one is poisoned.
  bool poisoned() const { return poisoned_; }

 private:
  struct Stream {
    size_t edge = 0;
    uint32_t phase = 0;  // Sending waits for all that comes in earlier phases.
    bool done = false;   // All messages of the collective are done; there is at least one.
    SegmentWalk walk;

    void restart() {
      walk.restart();
      done = false;
    }
  };

  void make_streams(const CollectiveCall& call);
  void gather();
  void broadcast(uint32_t root);
  void exchange();
  Stream& add(std::vector<Stream>& streams, size_t& count, uint32_t host, uint32_t phase);
  void add_blocks_of(Stream& stream, uint32_t host, bool sends);
  void add_segment(Stream& stream, const Block& block, uint32_t member);
  void send(Stream& stream);
  bool receive(Stream& stream);
  void receive_into(const Segment& segment, int64_t begin, int64_t end, const std::byte* from);
  uint32_t phase() const;

  const ChannelView view_;
  StreamEdges& edges_;
  std::vector<size_t> edge_of_;  // Indexed by host.
  const HostMembers* members_ = nullptr;
  bool poisoned_ = false;
  BlockShape shape_;              // Shape of the streams.
  std::vector<Stream> out_, in_;  // Streams beyond the counts below keep their capacity.
  size_t outs_ = 0, ins_ = 0;
};

}  // namespace gangway
