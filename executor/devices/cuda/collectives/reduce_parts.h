// reduce_parts(): the parts of several ranks on one card, combined by one kernel.
//
// Arithmetic: the tree over ranks of collectives/hosts/rank_tree.h.
// Threads: the device's.
// Errors: what fails is noted (CardStreams::note()).
// Cost: one launch, which reads every part.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

// On the communication stream: `parts`, by rank, at most cuda::kRankPartsMax, each as large as
// `tensor`, into tensor.out.
void reduce_parts(CardStreams& device, std::string_view label, Reduction reduction,
                  std::span<const std::byte* const> parts, const CollectiveTensor& tensor);

}  // namespace gangway
