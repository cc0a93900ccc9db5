// The mixture-of-experts layer of the reference model: router, top-k, capacity, expert blocks, both
// auxiliary losses.
//
// The tokens of the batch are cut into `groups` equal runs. Drops and the balance loss depend on a
// token's own group only. Tokens take the slots of an expert in token order, then choice order. A
// (token, choice) pair that finds no slot contributes nothing, and the weights of the other pairs
// do not change.
//
//   weights  the softmax over experts of the chosen k (ties: the lower expert), divided by their
//            sum if asked
//   balance  mean over groups of experts * sum_e f_e * P_e: f_e the share of (token, choice) pairs
//            that chose e, before any drop and without a gradient, P_e the mean probability of e
//   z        mean over tokens of (log sum exp of the router's logits)^2
//
// Threads: pure functions; safe anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/numerics/reference_math.h"

namespace gangway::reference {

struct MoeConfig {
  int experts = 0;  // 0: a dense feed-forward block instead.
  int top_k = 2;
  int groups = 1;
  int capacity = 0;  // Slots of an expert in one group; 0: dropless.
  bool renormalise = true;
  double balance_coefficient = 0;
  double z_coefficient = 0;
  bool residual = false;  // The output of a dense block is added to that of the experts.
};

struct MoeWeights {
  View router;          // [dim, experts]
  View up, gate, down;  // [experts, dim, hidden], the same or empty, [experts, hidden, dim]
};

struct MoeGradients {
  Out router, up, gate, down;
};

struct MoeTrace {
  int tokens = 0;
  Vec x;                                 // [tokens, dim]
  Vec probabilities;                     // [tokens, experts]
  Vec log_sum;                           // [tokens]
  std::vector<int> expert;               // [tokens, top_k]
  Vec weight;                            // [tokens, top_k]
  std::vector<std::vector<int>> pairs;   // Per expert: token * top_k + choice of pairs with a slot.
  std::vector<FeedForwardTrace> blocks;  // Per expert.
  std::vector<Vec> outputs;              // Per expert, [pairs, dim].
  std::vector<std::vector<int64_t>> chosen;  // [groups][experts], before any drop.

  double balance = 0;  // Unweighted.
  double z = 0;        // Unweighted.
  // The smallest gap between two probabilities that orders the choices of a token.
  double margin = 0;
  int64_t dropped = 0;  // (token, choice) pairs without a slot.
};

// `block` gives dim, hidden and activation; its weights are not read.
Vec moe_forward(const MoeConfig& config, const FeedForward& block, const MoeWeights& weights, Vec x,
                MoeTrace& trace);

// `dy`: the gradient of the layer's output. Adds to `gradients` and returns the gradient of x. Both
// include the gradients of the auxiliary losses, scaled by their coefficients.
Vec moe_backward(const MoeConfig& config, const FeedForward& block, const MoeWeights& weights,
                 const MoeTrace& trace, View dy, MoeGradients gradients);

}  // namespace gangway::reference
