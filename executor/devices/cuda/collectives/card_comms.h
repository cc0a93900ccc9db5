// CardComms: what a member enqueues on its communication stream for one collective of a
// communicator.
//
//   all-reduce       as it is
//   all-gather       whole parts of the outermost dimension as they are; others into staging, then
//                    laid where they belong; where they do not fit there, since most of them are
//                    dropped, as an all-to-all of what is kept
//   reduce-scatter   the same parts as they are; others packed in staging first
//   all-to-all       a message to and from each; what does not lie together is packed, or unpacked
//   permute          a message to one, a message from one
//   broadcast        as it is
//
// Staging is the stream's: the next collective uses it once this one is done.
//
// Threads: the device's. Ownership: nothing is kept.
// Errors: a status; copies that fail are noted (CardStreams::note()).
// Cost: the communicator's, and one copy or launch for each part that is packed or unpacked.
#pragma once

#include <string_view>
#include <vector>

#include "executor/collectives/block.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

struct CardComms {
  static int64_t staging_bytes(int64_t bytes_max, uint32_t members);

  cuda::Status enqueue(const CollectiveCall& call) const;

  CardStreams& device;
  const std::string_view label;
  const cuda::CommHandle comm;
  const uint32_t rank, size;
  std::byte* const staging;

 private:
  cuda::At at() const { return {device.communication(), label}; }
  cuda::Status gather(const CollectiveCall& call) const;
  cuda::Status scatter(const CollectiveCall& call) const;
  cuda::Status exchange(const CollectiveCall& call) const;
};

// What a member sends, or passes on in a ring in rank order.
int64_t bytes_sent(const CollectiveCall& call, uint32_t members, uint32_t rank);

}  // namespace gangway
