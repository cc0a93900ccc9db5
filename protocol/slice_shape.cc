#include "protocol/slice_shape.h"

#include <algorithm>

#include "ir/plan/plan_check.h"
#include "runtime/base/error.h"

namespace gangway {

void require_ranks_divide(int64_t devices, int64_t ranks_per_device) {
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

void require_possible(const SliceShape& shape) {
  require_ranks_divide(shape.devices, shape.ranks_per_device);
  GW_REQUIRE(shape.axes.size() <= kSliceAxesMax, "allocate: mesh: expected at most ", kSliceAxesMax,
             " axes, got ", shape.axes.size());
  if (!shape.axes.empty()) {
    int64_t product = 1;
    for (const uint32_t size : shape.axes)
      product = std::min(product * size, int64_t{kPlanDevicesMax} + 1);
    GW_REQUIRE(product == shape.devices, "allocate: mesh: expected axes of ", shape.devices,
               " devices in all, got ",
               product > kPlanDevicesMax ? cat("more than ", kPlanDevicesMax) : cat(product));
  }
  GW_REQUIRE(shape.memory_bytes >= 0 && shape.memory_bytes <= kSliceMemoryBytesMax,
             "allocate: memory_bytes: expected 0 or more, up to ", kSliceMemoryBytesMax, ", got ",
             shape.memory_bytes);
  GW_REQUIRE(shape.wait_ms >= 0 && shape.wait_ms <= kSliceWaitMsMax,
             "allocate: wait_ms: expected 0 to ", kSliceWaitMsMax, " (a week), got ",
             shape.wait_ms);
}

}  // namespace gangway
