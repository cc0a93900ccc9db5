// The name of one device of one host in the controller's tables.
//
// Threads: a value.
#pragma once

#include <compare>
#include <cstdint>

#include "runtime/base/ids.h"

namespace gangway {

using HostId = Id<struct HostTag, uint32_t>;

struct DeviceRef {
  HostId host;
  uint32_t device = 0;
  friend auto operator<=>(const DeviceRef&, const DeviceRef&) = default;
};

}  // namespace gangway
