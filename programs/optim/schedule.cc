#include "programs/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gangway::programs {

double CosineSchedule::operator()(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  double done = static_cast<double>(step - warmup) /
                static_cast<double>(std::max<int64_t>(1, steps - warmup));
  double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return peak * (final_share + (1.0 - final_share) * wave);
}

}  // namespace gangway::programs
