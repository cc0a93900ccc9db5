// HostReduce: one channel of a large all-reduce over several hosts: one member of each host reduces
// the same part of the bucket, for all members of its host.
//
//   piece by piece:  my host's tensors -> partial -> reduce_schedule() with the same channel of
//                    other hosts -> the result into my host's tensors
//
// A piece has at most kPieceBytes, so the memory that hosts need of one another is bounded for
// every bucket, and stays in the cache.
//
// Threads: the member's device.
// Ownership: edges and memory are the plan's; buckets belong to members that wait for one another.
// Cost: every byte is sent and received about once as partial and once as result.
#pragma once

#include <vector>

#include "executor/collectives/hosts/host_edge.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

class HostReduce {
 public:
  static constexpr int64_t kPieceBytes = int64_t{2} << 20;  // Size of a piece of partials.

  HostReduce(const HostSchedule& schedule, std::vector<HostEdge> edges, const OwnMemory& memory,
             LinkMeter* meter, int64_t piece_bytes);

  // `members`: the buckets of all members of this host, by rank; `mine`: the one of this member.
  struct Input {
    std::span<const Bucket* const> members;
    const Bucket* mine = nullptr;
    LineRange lines;  // Lines of the channel.
    Reduction reduction = Reduction::kSum;
    bool poisoned = false;
  };
  void begin(const Input& input);
  Progress advance();
  // Once done: whether a member of any host was poisoned.
  bool poisoned() const { return poisoned_; }

 private:
  void begin_piece();
  Progress advance_step(const EdgeStep& step);
  Progress receive(const EdgeStep& step, const HostEdge& edge, const LineRange& lines);
  LineRange lines_of(const HostStep& step) const;
  void reduce_here();
  void finish(const LineRange& lines);
  void send_partial(const HostEdge& edge, const LineRange& lines);
  void send_result(const HostEdge& edge, const LineRange& lines);
  void combine(const std::byte* theirs, const LineRange& lines, bool peer_left);
  void take(const std::byte* theirs, const LineRange& lines);
  void give_others(const Bucket::Piece& piece);

  const uint32_t chunks_;
  const std::vector<HostEdge> edges_;
  std::vector<EdgeStep> steps_;
  const OwnMemory& memory_;
  LinkMeter* const meter_;
  const int64_t piece_lines_;
  std::vector<std::byte> partial_;  // Partial of the piece.

  std::vector<const Bucket*> members_;
  const Bucket* mine_ = nullptr;
  LineRange lines_, piece_;
  Reduction reduction_ = Reduction::kSum;
  bool poisoned_ = false;
  uint64_t number_ = 0;  // Number of pieces so far.
  size_t cursor_ = 0;
  std::vector<const std::byte*> sources_;
};

}  // namespace gangway
