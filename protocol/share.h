// Share: a program's claim on devices that it shares with other programs.
//
// Threads: a value.
// Errors: require_share() throws kInvalid, naming `who`.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/base/error.h"

namespace gangway {

struct Share {
  double weight = 1;     // Fair share: its part of the device time, against the others' weights.
  int32_t priority = 0;  // Priority: higher goes first.
  bool operator==(const Share&) const = default;
};

inline constexpr double kWeightMin = 0.01, kWeightMax = 1000;
inline constexpr int32_t kPriorityMax = 1000;  // And at least -kPriorityMax.

inline void require_share(const std::string& who, const Share& share) {
  GW_REQUIRE(
      std::isfinite(share.weight) && share.weight >= kWeightMin && share.weight <= kWeightMax, who,
      ": its weight: expected ", kWeightMin, " to ", kWeightMax, ", got ", share.weight);
  GW_REQUIRE(share.priority >= -kPriorityMax && share.priority <= kPriorityMax, who,
             ": its priority: expected ", -kPriorityMax, " to ", kPriorityMax, ", got ",
             share.priority);
}

}  // namespace gangway
