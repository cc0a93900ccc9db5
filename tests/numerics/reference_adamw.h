// An independent AdamW step in double precision: clipping by the global norm, bias correction,
// decoupled decay.
//
//   g' = g * min(1, clip_norm / norm(all g))
//   m = beta1 m + (1 - beta1) g'          v = beta2 v + (1 - beta2) g'^2
//   p = p - rate * ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay p)
//
// Threads: not shared.
// Errors: kInvalid when the gradients are not of the same tensors as the parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/numerics/reference_model.h"

namespace gangway::reference {

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
  double clip_norm = 0;                                  // 0: no clipping.
  std::function<bool(const std::string& name)> decayed;  // Empty: every parameter decays.
};

struct AdamWState {
  int64_t step = 0;  // Steps taken.
  Tensors m, v;      // Empty before the first step.
};

// Updates parameters and state; returns the norm of all gradients before clipping.
double adamw_step(const AdamWConfig& config, double rate, const Tensors& gradients,
                  Tensors& parameters, AdamWState& state);

}  // namespace gangway::reference
