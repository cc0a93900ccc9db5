// HostTimeline: the newest events of a host's devices, as its executor reported them to the
// controller.
//
// Threads: a value.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/observe/trace.h"

namespace gangway {

struct HostTimeline {
  std::shared_ptr<const std::vector<std::string>> names;  // The events point to these names.
  TraceDump trace;
};

}  // namespace gangway
