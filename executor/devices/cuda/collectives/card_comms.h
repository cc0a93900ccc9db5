// CardComms: what a card enqueues on its communication stream for one collective of a communicator,
// whose members are cards: for its one rank, or for all that it runs.
//
//                    one rank a card                        several, by the lowest of the card
//   all-reduce       as it is                               (rank_collective.h)
//   all-gather       whole parts of the outermost           a message of each rank to and from each
//                    dimension as they are; others into     card, then copies of the whole
//                    staging, then laid where they belong
//   reduce-scatter   the same parts as they are; others     parts packed by card, reduced on the
//                    packed in staging first                card, scattered, copied
//   all-to-all       a message to and from each rank of other cards; what does not lie together is
//                    packed, or unpacked; ranks of one card copy
//   permute          a message to one, a message from one; ranks of one card copy
//   broadcast        as it is                               as it is, then copies
//
// If most parts of an all-gather are dropped, so that they do not fit into staging, a card with one
// rank sends messages too. Rows of a ragged all-to-all for which the receiver has no room are sent,
// and dropped: their sender does not know that.
//
// Two cards that send each other several messages do so in the order of the senders' ranks, then of
// the receivers'.
//
// Staging is the stream's: the next collective uses it once this one is done.
//
// Threads: the device's. Ownership: nothing is kept.
// Errors: a status; copies that fail are noted (CardStreams::note()).
// Cost: the communicator's, and one copy or launch for each part that is packed or unpacked.
#pragma once

#include <span>
#include <string_view>

#include "executor/collectives/block.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

// A rank of the card: its call, with sizes of ragged rows in host memory.
struct CardRank {
  uint32_t rank = 0;
  const CollectiveCall* call = nullptr;
  std::byte* staging = nullptr;
};

// Payload that was moved: between ranks of the card; to other cards, or as a ring in rank order
// passes it on.
struct CardTraffic {
  int64_t here = 0, sent = 0;
};

class CardComms {
 public:
  // Staging that each rank needs.
  static int64_t staging_bytes(int64_t bytes_max, uint32_t members);

  cuda::Status enqueue(CardTraffic& moved) const;

  CardStreams& device;
  const std::string_view label;
  const cuda::CommHandle comm;
  const uint32_t cards;                     // Members of the communicator.
  const std::span<const uint32_t> card_of;  // Card that runs each rank.
  const std::span<const CardRank> here;     // Ranks of this card.

 private:
  cuda::At at() const { return {device.communication(), label}; }
  const CollectiveCall& call() const { return *here[0].call; }
  uint32_t size() const { return static_cast<uint32_t>(card_of.size()); }
  cuda::Status gather(CardTraffic& moved) const;
  cuda::Status scatter(CardTraffic& moved) const;
  cuda::Status scatter_ranks(CardTraffic& moved) const;
  cuda::Status broadcast(CardTraffic& moved) const;
  bool copy_to_others(CardTraffic& moved) const;
};

}  // namespace gangway
