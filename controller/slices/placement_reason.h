// Says in words why a slice lies where it does, for later questions (`gangway graph --why`): the
// offer at that time, and what was chosen of it.
//
//   "the best of 3 hosts in 2 islands: 1 host of island main, whose devices had no other slice; 2
//   of its devices are left unused"
//
// Threads: a pure function. Cost: linear in what was offered.
#pragma once

#include <string>
#include <vector>

#include "controller/slices/placement.h"

namespace gangway {

// The devices in `chosen` are among those offered.
std::string placement_reason(const std::vector<OfferedHost>& offered,
                             const std::vector<DeviceRef>& chosen);

}  // namespace gangway
