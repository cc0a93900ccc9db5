// What a slice may ask for, as clients say it first and the controller, which trusts none, again.
//
// Threads: pure.
// Errors: throws kInvalid with the numbers.
#pragma once

#include <cstdint>

#include "ir/plan/plan_check.h"
#include "runtime/base/error.h"

namespace gangway {

// `devices` virtual ones, `ranks_per_device` of them on each physical one.
inline void require_ranks_divide(int64_t devices, int64_t ranks_per_device) {
  GW_REQUIRE(devices >= 1 && devices <= kPlanDevicesMax, "allocate: expected 1 to ",
             kPlanDevicesMax, " devices, got ", devices);
  GW_REQUIRE(ranks_per_device >= 1 && ranks_per_device <= kRanksPerDeviceMax,
             "allocate: ranks_per_device: expected 1 to ", kRanksPerDeviceMax, ", got ",
             ranks_per_device);
  GW_REQUIRE(devices % ranks_per_device == 0, "allocate: ", devices,
             " devices of a slice do not divide into physical ones with ranks_per_device = ",
             ranks_per_device, " each: expected a multiple of ", ranks_per_device, ", got ",
             devices);
}

}  // namespace gangway
