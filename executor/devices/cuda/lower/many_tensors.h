// AdamW steps and sums of squares, a node for each tensor, as one launch over all of them.
//
// A model has hundreds of parameters, most of them small: a launch each costs more than its work.
// Nodes of one kind and type run together, where the last of them is, as long as between the first
// and the last there is no commit point, and nothing that depends on one of them, overwrites what
// one reads, waits for other devices, or is large: what they read is kept until the last, and must
// not make a function need more memory. They may be of several sections; the last has their work.
// The bits are those of the nodes alone, which is how a checked run runs them.
//
// Threads: pure.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "executor/devices/cuda/kernels/many/many_pieces.h"
#include "executor/devices/cuda/lower/lower.h"
#include "ir/plan/plan.h"
#include "ir/plan/step_map.h"
#include "runtime/base/align.h"

namespace gangway::cuda {

// Finds nodes of the function itself, not of its bodies. Each Together has at least two, ascending.
std::vector<Together> find_together(const LocalFunction& local, const StepMap& steps);

// Adds commands for all of `nodes`. `call` is the last node's.
void lower_together(Lowering& call, std::span<const NodeId> nodes);

// `nodes` may be a single one. These are in lower_adamw.cc and lower_reduce.cc.
void lower_many_adamw(Lowering& call, std::span<const NodeId> nodes);
void lower_many_squares(Lowering& call, std::span<const NodeId> nodes);

// Says which pieces each tensor has, and returns their number. Throws if a grid cannot have as
// many.
template <int kMax>
int64_t cut(const Lowering& call, const std::vector<int64_t>& elements, int64_t piece,
            ManyPieces<kMax>& to) {
  int64_t all = 0;
  for (size_t t = 0; t < elements.size(); ++t) {
    to.first[t] = static_cast<int32_t>(all);
    to.elements[t] = elements[t];
    all += std::max<int64_t>(1, ceil_div(elements[t], piece));
    if (all > INT32_MAX) call.refuse("too many elements");
  }
  to.count = static_cast<int32_t>(elements.size());
  return all;
}

}  // namespace gangway::cuda
