// Blocks of tensors that are copied on a card: parts that a collective packs or unpacks.
//
// Threads: the device's.
// Errors: failures are noted (CardStreams::note()).
// Cost: one copy if the block is contiguous in both tensors, else one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "executor/collectives/block.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

// packed(): the same block, contiguous in `out` from `begin` on. unpacked(): the same block,
// contiguous in `in` from `begin` on.
Block packed(Block block, int64_t begin);
Block unpacked(Block block, int64_t begin);

// The block without its bytes behind Block::out_end.
Block kept(Block block);

// Error of a collective whose copy, or launch, was noted as failed.
cuda::Status copy_failed(std::string_view label);

// Copies the block from `in` to `out`, on the communication stream. False: the copy failed.
bool move_block(CardStreams& device, std::string_view label, const Block& block,
                const std::byte* in, std::byte* out);
struct GroupPlace {
  uint32_t rank = 0, size = 1;
};
// Zeroes `out` of a member whose part is short; or, of ragged rows, once their number is known, the
// space behind them.
bool zero_padding(CardStreams& device, std::string_view label, const CollectiveCall& call,
                  GroupPlace member);
// Copies all parts of a reduce-scatter to `parts`, one behind another in the order of members, or
// in `order`, each as large as `out`.
bool pack_parts(CardStreams& device, std::string_view label, const CollectiveCall& call,
                std::byte* parts);
bool pack_parts(CardStreams& device, std::string_view label, const CollectiveCall& call,
                std::span<const uint32_t> order, std::byte* parts);

}  // namespace gangway
