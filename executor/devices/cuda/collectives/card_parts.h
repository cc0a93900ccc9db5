// The parts of several ranks on one card: copied where the other ranks read them, and combined.
//
// Arithmetic: the tree over ranks of collectives/hosts/rank_tree.h.
// Threads: the device's.
// Errors: failures are noted (CardStreams::note()).
// Cost: copy_in() one copy a tensor; reduce_parts() one launch, which reads every part.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/driver/card_streams.h"
#include "runtime/base/align.h"

namespace gangway {

// Bytes in a part that `bytes` bytes of a tensor take.
inline int64_t bytes_in_part(int64_t bytes) { return align_up(bytes, 64); }

// Copies the tensors, one behind another, to `part`, which has room for `bytes_max`: on the
// communication stream, after all work that compute has so far. False: they do not fit, or a copy
// failed.
bool copy_in(CardStreams& device, std::string_view label, std::span<const CollectiveTensor> tensors,
             std::byte* part, int64_t bytes_max);

// Reduces `parts`, in the order of ranks, into tensor.out, on the communication stream. There are
// at most cuda::kRankPartsMax parts, each as large as `tensor`.
void reduce_parts(CardStreams& device, std::string_view label, Reduction reduction,
                  std::span<const std::byte* const> parts, const CollectiveTensor& tensor);

}  // namespace gangway
