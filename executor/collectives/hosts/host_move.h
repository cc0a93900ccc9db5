// HostMove: one lane of a collective that moves parts of tensors between hosts unchanged.
//
//   all_gather              at distance 1, 2, 4, ...: a host sends what it has, its own and what it
//                           received, to the host that far behind it, until all have all
//   collective_broadcast    the same distances, from the root's host: who has it sends it on, all
//                           others send an empty message
//   all others              each host sends each other one what is for it, if only an empty message
//
// The first is the dissemination of Bruck et al. 1997, the second a binomial tree. Either way each
// host hears of all others, and so, with the messages, whether any member is poisoned. A permute
// over many hosts is the exception: it sends to few of them, and GroupCollective asks the others.
//
// Invariants
//  - Hosts agree on every message without saying so: both sides walk the same segments.
//  - A lane receives into tensors of all members of its host, each byte in one lane only.
//  - Members that are poisoned send what lies in their tensors.
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
  // Whether each host hears of all others in such a collective.
  static bool reach_all(CollectiveKind kind, uint32_t hosts) {
    constexpr uint32_t kFewHosts = 4;
    return kind != CollectiveKind::kPermute || hosts <= kFewHosts;
  }
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
  HostMove(LaneView view, StreamEdges& edges);

  // `members`: of this host; must live until it is done. `poisoned`: one of them is.
  void begin(const HostMembers& members, bool poisoned);
  Progress advance();
  // Once done: a member of any host that was heard of is.
  bool poisoned() const { return poisoned_; }

 private:
  struct Stream {
    size_t edge = 0;
    uint32_t phase = 0;  // What is sent waits for all that comes in earlier ones.
    bool done = false;   // Of the collective's messages; there is one at least.
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

  const LaneView view_;
  StreamEdges& edges_;
  std::vector<size_t> edge_of_;  // By host.
  const HostMembers* members_ = nullptr;
  bool poisoned_ = false;
  BlockShape shape_;              // Of the streams.
  std::vector<Stream> out_, in_;  // Those behind the counts keep their capacity.
  size_t outs_ = 0, ins_ = 0;
};

}  // namespace gangway
