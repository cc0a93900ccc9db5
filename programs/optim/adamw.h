// AdamW with global-norm clipping as part of a training program (Loshchilov & Hutter 2019;
// clipping: Pascanu et al. 2013).
//
// The learning rate and the step are run-time inputs, "lr" and "step": a schedule never recompiles.
// Moments are state, "adamw.m.<name>" and "adamw.v.<name>", in the parameters' type, stacking and
// placement; `moments` may cut them further, by rules on the parameters' names (ZeRO's first
// stage).
// Threads: traces on the builder's thread.
#pragma once

#include <vector>

#include "ir/build/program_builder.h"
#include "ir/build/tree.h"

namespace gangway::programs {

struct AdamwConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // Of tensors of rank 2 and more (stacked: of a layer's); norms and
                              // biases do not decay.
  double clip_norm = 1.0;     // 0: no clipping.
};

struct AdamwResult {
  Value grad_norm;  // The gradients' global norm, before clipping.
  Value rate;       // lr times that norm: finite exactly when gradients and learning rate are.
};

// Updates `params`, states of `b`, with `grads` of the same shape.
AdamwResult adamw(ProgramBuilder& b, const Tree& params, const Tree& grads,
                  const AdamwConfig& config, const std::vector<PlacementRule>& moments = {},
                  Loc loc = Loc::current());

}  // namespace gangway::programs
