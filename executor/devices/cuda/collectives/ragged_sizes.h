// RaggedSizes: the number of rows that members of a ragged all-to-all send one another. The host
// needs it, since it gives the size of each message.
//
//   copy my sizes to the host -> mark -> | all-to-all of the sizes, in the members' rendezvous |
//
// The sizes are on the card, and a communicator's messages have sizes that the host gives.
// Exchanging a fixed bound instead would move as many rows between each two members as one of them
// has in all, so the host waits for the card here: only this collective is not launched ahead.
//
// The rendezvous must carry sizes: carry_sizes() of collectives/hosts/group_links.h.
//
// Threads: the device's.
// Ownership: pinned memory for the sizes, allocated once.
// Errors: failure(): the failure of the work's launches until then; or, if no member was poisoned,
// an error that more rows come than fit, though they must (the other members do not know of it
// yet).
// Cost: a wait for all work that the device was given before, a rendezvous, and two small copies.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

class RaggedSizes {
 public:
  RaggedSizes(CardStreams& device, uint32_t members);

  // `call`: with sizes on the card; its tensors must live until the collective is done.
  void begin(const CollectiveCall& call, std::string_view label, bool poisoned);
  // Once done, the rendezvous says whether a member was poisoned.
  Progress advance(Collective& rendezvous);
  // If no member was poisoned: the call with corrected sizes in host memory. Valid until begin().
  const CollectiveCall& known() const { return call_; }
  // Copies the numbers of received rows to the call's `received`, on the communication stream.
  bool tell(std::string_view label);
  const std::shared_ptr<const Error>& failure() const { return failure_; }

 private:
  void take_sizes();
  void begin_exchange(Collective& rendezvous);

  CardStreams& device_;
  const uint32_t members_;
  HostMemory pinned_;  // Sizes, then the numbers of received rows.
  std::vector<int32_t> sizes_, received_;
  CollectiveTensor tensor_;  // Tensor of the exchange.
  CollectiveCall call_;
  int32_t* received_on_card_ = nullptr;  // `received` of the call, on the card.
  uint64_t mark_ = 0;
  bool waits_ = false;  // It waits for the card; else for the members.
  bool met_ = false;    // The exchange has begun.
  bool poisoned_ = false;
  std::shared_ptr<const Error> failure_;
};

}  // namespace gangway
