// HostMove: one lane of a collective that moves parts of tensors between hosts unchanged.
//
//   all_gather              at distance 1, 2, 4, ...: a host sends what it has, its own and what it
//                           received, to the host that far behind it, until all have all
//   collective_broadcast    the same distances, from the root's host: who has it sends it on
//   all others              each host sends each other one what is for it
//
// The first is the dissemination of Bruck et al. 1997, the second a binomial tree.
//
// Invariants
//  - Hosts agree on every message without saying so: both sides walk the same segments.
//  - A lane receives into tensors of all members of its host, each byte in one lane only.
//  - Poison is not its business: members that are poisoned send what lies in their tensors.
//
// Threads: the member's device.
// Ownership: edges and memory are the plan's; tensors are the members', who wait for one another.
// Cost: docs/collectives.md.
#pragma once

#include <span>
#include <vector>

#include "executor/collectives/hosts/local_move.h"
#include "executor/collectives/hosts/segments.h"
#include "executor/collectives/hosts/stream_edge.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

// Which host sends to which in the collectives of HostMove and HostScatter.
struct HostRoutes {
  // Whether `kinds` have a message from host `from` of so many to host `to`.
  static bool has(CollectiveKinds kinds, uint32_t hosts, uint32_t from, uint32_t to);
};

// A lane of a group, as one of its hosts sees it.
struct LaneView {
  std::vector<std::vector<uint32_t>> ranks;  // Of each host's members; hosts by lowest rank.
  uint32_t self = 0;                         // Which of the hosts this is.
  uint32_t size = 0;                         // Members on all hosts.
  uint32_t lane = 0, lanes = 1;
  uint32_t index = 0;  // Of the member here that works on it.
  LinkMeter* meter = nullptr;

  uint32_t hosts() const { return static_cast<uint32_t>(ranks.size()); }
};

class HostMove {
 public:
  HostMove(LaneView view, StreamEdges& edges) : view_(std::move(view)), edges_(edges) {}

  // `members`: of this host; must live until it is done.
  void begin(const HostMembers& members);
  Progress advance();

 private:
  struct Stream {
    size_t edge = 0;
    uint32_t phase = 0;  // What is sent waits for all that comes in earlier ones.
    SegmentWalk walk;
  };

  void gather();
  void broadcast(uint32_t root);
  void exchange();
  Stream& add(std::vector<Stream>& streams, size_t& count, uint32_t host, uint32_t phase);
  void add_blocks_of(Stream& stream, uint32_t host, bool sends);
  void add_segment(Stream& stream, const Block& block, uint32_t member);
  bool send(Stream& stream);
  bool receive(Stream& stream);
  uint32_t phase() const;

  const LaneView view_;
  StreamEdges& edges_;
  const HostMembers* members_ = nullptr;
  std::vector<Stream> out_, in_;  // Those behind the counts keep their capacity.
  size_t outs_ = 0, ins_ = 0;
};

}  // namespace gangway
