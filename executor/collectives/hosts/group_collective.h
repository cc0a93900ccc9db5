// GroupCollective: the collectives of devices on one host or on several, for tensors in host
// memory.
//
//   members of one host  meet in its memory (rendezvous.h) and read one another's tensors there
//   hosts                write into one another's memory (links/host_link.h), each to a few others
//
//   one host          publish | -> reduce my part of all tensors, into all -> reduced |
//   several, large    publish | -> one channel a member: host_reduce.h     -> reduced |
//   small, exchange   publish | -> member 0: host_exchange.h               -> answer  |
//
// This holds for all-reduces and exchanges. The other kinds move parts of tensors:
//
//   one host, small   publish |                                            -> take my part
//   one host          publish | -> take, or reduce, my part                -> done |
//   several           publish | -> the same of this host; one channel a    -> done |
//                                  member: host_move.h, host_scatter.h
//
// Ragged rows are two of these, one after the other: sizes, then rows.
//
// Every | is a rendezvous of the members of one host. A small bucket is copied when it is
// published, so that on one host a member needs no second rendezvous before its tensors change. The
// result over several hosts is the tree over hosts of the trees over each host's members
// (rank_tree.h). If every host has 2^k consecutive members, and the last perhaps fewer, that is the
// tree over all members, however they are spread.
//
// Threads: the device's; abort flags on any thread.
// Ownership: the rendezvous is shared with the host's other members; memory and bells are the
// plan's.
// Cost: docs/collectives.md.
#pragma once

#include <memory>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/collectives/collective_call.h"
#include "executor/collectives/hosts/abort_flags.h"
#include "executor/collectives/hosts/host_exchange.h"
#include "executor/collectives/hosts/host_move.h"
#include "executor/collectives/hosts/host_reduce.h"
#include "executor/collectives/hosts/host_scatter.h"
#include "executor/collectives/hosts/rendezvous.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

// The objects that a member shares with the others of its host, and with members of other hosts.
struct GroupPart {
  uint32_t index = 0;           // Index of this member among its host's.
  std::vector<uint32_t> ranks;  // Ranks of its host's members in the group of `size`.
  // Indices, among its host's members, of the members on its device, including itself.
  std::vector<uint32_t> beside;
  uint32_t size = 1;
  int64_t bytes_max = 0;  // Limit for a collective.
  std::shared_ptr<HostRendezvous> rendezvous;
  uint32_t hosts = 1;
  uint32_t channels = 0;                          // 0: there is no other host.
  std::unique_ptr<HostExchange> exchange;         // Member 0, with other hosts.
  std::unique_ptr<HostReduce> reduce;             // Members below `channels`, with large buckets.
  std::unique_ptr<StreamEdges> edges;             // The same, with kinds that have no bucket:
  std::unique_ptr<HostMove> move;                 //   any of them;
  std::unique_ptr<HostScatter> scatter;           //   reduce-scatter.
  std::shared_ptr<const AbortFlags> abort_flags;  // Null: no member raises any.
  LinkMeter* meter = nullptr;                     // Null: nothing is counted.
  PeerCounts peers{};
};

class GroupCollective final : public Collective {
 public:
  // Tensors up to this size are copied for the others of the host. Buckets up to it are sent as one
  // message, and every member of a host reduces them alone.
  static constexpr int64_t kSmallBytes = 8192;

  explicit GroupCollective(GroupPart part);

  uint32_t rank() const override { return part_.ranks[part_.index]; }
  uint32_t size() const override { return part_.size; }
  PeerCounts peers() const override { return part_.peers; }
  uint32_t ranks_here() const override { return static_cast<uint32_t>(part_.beside.size()); }
  bool all_here_began() const override;
  void begin(const CollectiveCall& call, bool poisoned) override;
  void begin_exchange(uint64_t word, bool poisoned) override;
  Progress advance() override;
  bool poisoned() const override { return agreed_.poisoned; }
  uint64_t least() const override { return agreed_.least; }
  uint64_t most() const override { return agreed_.most; }
  std::span<const uint64_t> words() const override { return words_; }
  std::shared_ptr<const Error> failure() const override { return failure_; }
  void raise_abort(uint64_t what) override;
  bool abort_raised(uint64_t what) const override;

 private:
  enum class Phase : uint8_t { kIdle, kBegun, kPublished, kHosts, kAnswer, kReduced };
  enum class Kind : uint8_t { kExchange, kSmall, kLarge, kMove };

  void begin_rendezvous(uint64_t word, bool poisoned);
  void begin_reduce(const CollectiveCall& call, bool poisoned);
  void begin_move(const CollectiveCall& call, bool poisoned);
  void begin_sizes();
  void begin_rows();
  Progress advance_rendezvous();
  void publish();
  void publish_move();
  void read_slots();
  void read_words();
  Progress advance_published();
  Progress advance_hosts();
  Progress advance_move();
  Progress advance_channel();
  void find_members();
  void meet_on_one_host();
  void move_on_host();
  void begin_host_move();
  void begin_channel();
  void begin_answer();
  void give_answer();
  void take_answer();
  void reduce_small(std::byte* partial);
  void reduce_part();
  void raise_reduced();
  void count_read(int64_t bytes);
  int64_t small_max() const { return std::min(part_.bytes_max, kSmallBytes); }
  bool alone() const { return part_.channels == 0; }

  const GroupPart part_;
  HostRendezvous& rendezvous_;
  std::vector<std::byte> partial_;  // Member 0: partial of this host's members, for a small bucket.

  uint64_t sequence_ = 0;  // Number of the collective that was begun last.
  Phase phase_ = Phase::kIdle;
  Kind kind_ = Kind::kExchange;
  Bucket bucket_;
  Reduction reduction_ = Reduction::kSum;
  uint64_t word_ = 0;
  bool flag_ = false;
  Agreed agreed_;
  std::vector<uint64_t> words_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> outs_;
  std::vector<const Bucket*> buckets_;

  // kMove.
  CollectiveCall call_;
  CollectiveTensor tensor_;
  bool copied_ = false;  // Others read a copy of my tensor.
  HostMembers members_;
  bool asks_for_poison_ = false;  // Messages of the channel do not reach all hosts.
  // The ragged rows, which are moved once their sizes have come.
  bool rows_follow_ = false;
  CollectiveCall rows_;
  CollectiveTensor rows_tensor_;
  std::vector<int32_t> sizes_;  // After keep_to_rows().
  std::shared_ptr<const Error> failure_;
};

}  // namespace gangway
