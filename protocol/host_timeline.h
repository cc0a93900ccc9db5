// HostTimeline: what devices of a host did last, as its executor told the controller.
//
// Threads: a value.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/observe/trace.h"

namespace gangway {

struct HostTimeline {
  std::shared_ptr<const std::vector<std::string>> names;  // To which the events point.
  TraceDump trace;
};

}  // namespace gangway
