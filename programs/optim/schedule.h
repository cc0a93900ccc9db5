// Learning-rate schedules: pure functions of the step, evaluated by the client and given as
// run-time inputs.
#pragma once

#include <cstdint>

namespace gangway::programs {

// Linear warm-up to `peak` over `warmup` steps, then a half cosine down to `peak * final_share` at
// `steps` (Loshchilov & Hutter 2017). `step` counts from 1; beyond `steps` the rate stays at its
// end.
struct CosineSchedule {
  double peak = 2e-3;
  int64_t warmup = 50;
  int64_t steps = 1000;
  double final_share = 0.1;

  double operator()(int64_t step) const;
};

}  // namespace gangway::programs
