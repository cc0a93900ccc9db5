// AdamW with global-norm clipping as part of a training program (Loshchilov & Hutter 2019;
// clipping: Pascanu et al. 2013).
//
// The step, which counts from 1, is a run-time input. The learning rate is another one, or is
// computed from the step (AdamwConfig::rate).
//
// Moments are states, "adamw.m.<state>" and "adamw.v.<state>" for a parameter whose state has that
// full name ("adamw.m.params.layers.attn.o"), with the parameters' type, stacking and placement.
// `moments` may cut them further, by rules on the parameters' names below the root of their tree
// (ZeRO's first stage).
//
// A gate (ProgramBuilder::require_finite) looks at gradients, learning rate and step too: a step
// with one that is not finite, or with a step below 1, is not committed.
// Threads: traces on the builder's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/build/program_builder.h"
#include "ir/build/tree.h"

namespace gangway::programs {

struct AdamwConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  // Decay of tensors of rank 2 and more (not counting the stacked dimension); norms and biases do
  // not decay.
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: no clipping.
  // Names of the run-time inputs. A program with two optimizers needs other names for the second.
  std::string lr_input = "lr";
  std::string step_input = "step";
  // Computes the learning rate from the step, as the functions of programs/optim/schedule.h do.
  // There is no input `lr_input` then.
  std::function<Value(Value step)> rate = nullptr;
};

struct AdamwResult {
  Value grad_norm;  // The gradients' global norm, before clipping.
};

// Updates `params`, states of `b`, with `grads` of the same shape.
AdamwResult adamw(ProgramBuilder& b, const Tree& params, const Tree& grads,
                  const AdamwConfig& config, const std::vector<PlacementRule>& moments = {},
                  Loc loc = Loc::current());

}  // namespace gangway::programs
