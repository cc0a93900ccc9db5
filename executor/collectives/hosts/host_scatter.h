// HostScatter: one channel of a reduce-scatter over several hosts.
//
//   to each other host    the partial of this host's members, for the parts of that host's members
//   from each             its partial for the parts of this host's members; the partials of all
//                         hosts are combined, rounded and written to those members
//
// Each host thereby learns from all others whether any member is poisoned: there is at least one
// message, which may be empty.
//
// Partials and their order are those of an all-reduce (rank_tree.h, over hosts of over members),
// and so are the bits.
//
// Threads: the member's device.
// Ownership: edges and memory are the plan's; tensors belong to members that wait for one another.
// Cost: docs/collectives.md. `own` has one message.
#pragma once

#include <vector>

#include "executor/collectives/hosts/host_move.h"

namespace gangway {

class HostScatter {
 public:
  HostScatter(ChannelView view, StreamEdges& edges, int64_t piece_bytes);

  // `members`: those of this host; must live until it is done. `poisoned`: whether one of them is.
  void begin(const HostMembers& members, bool poisoned);
  Progress advance();
  // Once done: whether a member of any host is poisoned.
  bool poisoned() const { return poisoned_; }

 private:
  struct Out {
    SegmentWalk walk;
    bool done = false;  // At least one message was sent.
  };

  void send(size_t peer);
  bool combine();
  bool find_partials(int64_t bytes);
  bool reads_own_in_place() const;
  void walk_parts_of(uint32_t host, SegmentWalk& walk) const;
  // Combines the next `stored` bytes of the walk over this host's members, as partials.
  void reduce_here(SegmentWalk& walk, int64_t stored, std::byte* partial);
  // Bytes of the partial for that many stored bytes.
  int64_t partial_bytes(int64_t stored) const { return stored * widening_; }

  const ChannelView view_;
  StreamEdges& edges_;
  const int64_t piece_bytes_;
  std::vector<std::byte> own_;  // The partial of this host.
  bool own_ready_ = false;

  const HostMembers* members_ = nullptr;
  BlockShape shape_;  // Shape of the walks.
  DType dtype_ = DType::kF32;
  int64_t size_ = 4, widening_ = 1;  // Size of a stored element; size of a partial divided by it.
  int64_t stored_max_ = 0;           // Limit for one message.
  bool poisoned_ = false;
  std::vector<Out> out_;  // Indexed by edge.
  // Walks over the parts that are kept here: what is reduced next, and what is combined next.
  SegmentWalk here_, in_;
  bool in_done_ = false;
  std::vector<const std::byte*> sources_, partials_;
};

}  // namespace gangway
