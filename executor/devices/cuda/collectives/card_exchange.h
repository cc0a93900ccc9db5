// CardExchange: the messages of one collective between cards, each of which runs one rank or
// several, as one operation of the communicator; and the copies between ranks of this card.
//
//   clear padding, copy between my ranks, pack -> messages -> lay what came where it belongs
//
// In an all-gather each rank sends one message to each other card, and the lowest rank of a card
// receives all messages for the card.
//
// Threads: the device's. Ownership: belongs to one collective.
// Errors: a status; copies that fail are noted (CardStreams::note()).
// Cost: a launch for each block that is not contiguous.
#pragma once

#include <vector>

#include "executor/devices/cuda/collectives/card_comms.h"

namespace gangway {

class CardExchange {
 public:
  CardExchange(const CardComms& comms, CardTraffic& moved);

  cuda::Status run();

 private:
  // A rank of this card that receives, and the offset in its staging of the next message.
  struct Receiver {
    CardRank rank;
    int64_t next = 0;
  };
  // A message that was received into staging.
  struct Laid {
    Block block;
    const CardRank* rank = nullptr;
  };

  bool gets(uint32_t rank) const;
  bool is_here(uint32_t rank) const;
  bool clear_and_copy();
  bool send(const CardRank& from);
  void receive(uint32_t from, Receiver& to);
  bool lay();

  const CardComms& comms_;
  CardTraffic& moved_;
  const uint32_t size_;
  const bool gathers_;
  std::vector<bool> lowest_;  // Whether a rank is the lowest of its card.
  std::vector<Receiver> receivers_;
  std::vector<cuda::Message> messages_;
  std::vector<Laid> laid_;
};

}  // namespace gangway
