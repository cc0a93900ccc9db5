// All-reduces that do not depend on one another become few nodes with several operands: one meeting
// of the devices in place of many (the gradients of a step; the buckets of PyTorch DDP, Li et al.
// 2020).
//
// Operands go into buckets in the order in which they are computed, kBucketBytesMax to each and no
// more than a node may have. A bucket stands where its last operand is computed: so it runs beside
// the rest of the backward pass where a device can do that, and no more than a bucket is there
// twice, before and after its sum.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// A sum of so many bytes takes so long on any link that a meeting and a launch (10 us) do not
// count.
inline constexpr int64_t kBucketBytesMax = int64_t{32} << 20;

Function combine_all_reduces(const Function& local);

}  // namespace gangway
