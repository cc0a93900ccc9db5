// HostScatter: one lane of a reduce-scatter over several hosts.
//
//   to each other host    what this host's members come to, of the parts of that host's members
//   from each             the same of theirs: all hosts' are combined, rounded and written where
//                         they are kept
//
// With it each host hears from all others whether any member is poisoned: there is at least one
// message, if an empty one.
//
// Partials and their order are those of an all-reduce (rank_tree.h, over hosts of over members), so
// the bits are too.
//
// Threads: the member's device.
// Ownership: edges and memory are the plan's; tensors are the members', who wait for one another.
// Cost: docs/collectives.md. `own` has one message.
#pragma once

#include <vector>

#include "executor/collectives/hosts/host_move.h"

namespace gangway {

class HostScatter {
 public:
  HostScatter(LaneView view, StreamEdges& edges, int64_t piece_bytes);

  // `members`: of this host; must live until it is done. `poisoned`: one of them is.
  void begin(const HostMembers& members, bool poisoned);
  Progress advance();
  // Once done: a member of any host is.
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
  // What this host's members come to of the next `stored` bytes of the walk, as partials.
  void reduce_here(SegmentWalk& walk, int64_t stored, std::byte* partial);
  // Of so many bytes as they are stored.
  int64_t partial_bytes(int64_t stored) const { return stored * widening_; }

  const LaneView view_;
  StreamEdges& edges_;
  const int64_t piece_bytes_;
  std::vector<std::byte> own_;  // The partial of this host.
  bool own_ready_ = false;

  const HostMembers* members_ = nullptr;
  BlockShape shape_;  // Of the walks.
  DType dtype_ = DType::kF32;
  int64_t size_ = 4, widening_ = 1;  // Of an element as it is stored; of a partial over that.
  int64_t stored_max_ = 0;           // Of one message.
  bool poisoned_ = false;
  std::vector<Out> out_;  // By edge.
  // Of the parts that are kept here: what is reduced next, and what is combined next.
  SegmentWalk here_, in_;
  bool in_done_ = false;
  std::vector<const std::byte*> sources_, partials_;
};

}  // namespace gangway
