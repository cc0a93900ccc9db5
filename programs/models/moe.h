// A mixture-of-experts feed-forward layer: top-k gating, load-balancing and z losses, with a
// capacity or dropless.
//
// Tokens are routed within one of `groups` contiguous groups of the batch, never across, so that
// routing and dropping do not depend on the mesh (GShard, Lepikhin et al. 2020, section 2.2).
// Balance loss: Switch Transformer (Fedus et al. 2021, eq. 4) per group; z loss: ST-MoE (Zoph et
// al. 2022, eq. 5). Residual experts: DeepSpeed-MoE (Rajbhandari et al. 2022, section 4.1): every
// token goes through one dense expert besides those that it is routed to.
//
// Expert parallelism is a choice of rules: tokens cut by groups over an axis that also cuts the
// experts' weights. Rows then go to the experts and back by an all-to-all each, without a capacity
// by a ragged one, in the forward pass and in the backward pass.
//
// Parameters: router [dim, experts], up (and gate, when gated) [experts, dim, hidden], down
// [experts, hidden, dim]; with a residual expert residual.{up, gate} [dim, hidden], residual.down
// [hidden, dim].
// Threads: traces on the builder's thread.
#pragma once

#include <optional>

#include "ir/build/tree.h"
#include "programs/models/activations.h"
#include "programs/models/feed_forward.h"

namespace gangway::programs {

struct MoeConfig {
  int64_t experts = 0;  // 0: no experts, a dense layer.
  int64_t top_k = 2;
  int64_t groups = 1;  // Divides the batch.
  // 0: dropless. Otherwise an expert takes ceil(factor * tokens * k / experts) rows of each group.
  double capacity_factor = 0;
  // For dropless experts cut over devices: the room on a device for rows that come to its experts,
  // as a multiple of the rows that the device has itself. A step that finds too little room is not
  // committed (ir/plan/rows_overflow.h).
  double bound = 2;
  // Whether the k chosen gates are divided by their sum. Empty: they are if k is above 1. A single
  // gate divided by itself would be 1 whatever the router gives, and nothing would teach the router
  // where tokens belong. The gate is therefore the expert's probability then (Switch Transformer).
  std::optional<bool> renormalize = {};
  double balance_coefficient = 0.01;
  double z_coefficient = 1e-3;
  bool residual = false;  // A dense expert beside the routed ones, whose outputs are added.
};

struct MoeResult {
  Value out;  // [batch, seq, dim], as x.
  // f32[] (f64[]): before its coefficient; 1 when balanced, up to `experts` when collapsed.
  Value balance;
  Value z;     // f32[] (f64[]): before its coefficient.
  Value load;  // f32[groups, experts] (f64): share of a group's choices that went to each expert.
};

bool renormalizes(const MoeConfig& config);

// Slots of an expert in a group: 0 when dropless.
int64_t capacity_of(const MoeConfig& config, int64_t tokens);

// x: [batch, seq, dim]. `rules` place moe.in, moe.rows and moe.out; for the dense expert they place
// the activations of a feed-forward layer.
MoeResult moe(const MoeConfig& config, const Tree& p, Value x, const ActivationFunction& activation,
              const ActivationRules& rules = {}, Loc loc = Loc::current());

}  // namespace gangway::programs
