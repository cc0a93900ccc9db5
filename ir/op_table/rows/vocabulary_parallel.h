// A vocabulary that is cut over devices (Megatron-LM, Shoeybi et al. 2019, section 3): each looks
// up, and scores, the words that it has. Neither the table nor the logits are gathered.
//
//   take           each device finds its own rows, others are zeros: a sum of terms
//   scatter_add    each device adds up the updates of its own rows
//   cross_entropy  loss and logsumexp over the part, merged: a maximum and two sums of one number
//                  for each row
//
// Threads: pure functions.
#pragma once

#include "ir/op_table/op.h"

namespace gangway::internal {

inline constexpr std::string_view kVocabularyParallel = "vocabulary_parallel";

DistributedOp vocabulary_take();
DistributedOp vocabulary_scatter_add();
DistributedOp vocabulary_cross_entropy();
DistributedOp vocabulary_cross_entropy_grad();

}  // namespace gangway::internal
