// HostScatter: one lane of a reduce-scatter over several hosts.
//
//   to each other host    what this host's members come to, of the parts of that host's members
//   from each             the same of theirs: all hosts' are combined, rounded and written where
//                         they are kept
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

  // `members`: of this host; must live until it is done.
  void begin(const HostMembers& members);
  Progress advance();

 private:
  bool send(size_t peer);
  bool combine();
  void walk_parts_of(uint32_t host, SegmentWalk& walk) const;
  // What this host's members come to of the next `bytes` of the walk, as partials.
  int64_t reduce_here(SegmentWalk& walk, std::byte* partial);
  // So many bytes as they are stored have partials of one message.
  int64_t stored_bytes_max() const;

  const LaneView view_;
  StreamEdges& edges_;
  const int64_t piece_bytes_;
  std::vector<std::byte> own_;  // The partial of this host.
  bool own_ready_ = false;

  const HostMembers* members_ = nullptr;
  DType dtype_ = DType::kF32;
  std::vector<SegmentWalk> out_;  // By edge.
  // Of the parts that are kept here: what is reduced next, and what is combined next.
  SegmentWalk here_, in_;
  std::vector<const std::byte*> sources_, partials_;
};

}  // namespace gangway
