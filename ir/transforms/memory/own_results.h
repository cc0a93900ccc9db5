// Every result of a local function gets a buffer of its own: one that is a parameter, or that
// stands among the results twice, becomes a copy.
//
// It comes after the last pass that merges values: what differs in the global view (a spread row, a
// zero of another shape) may be one and the same on a device.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

Function own_results(Function local);

}  // namespace gangway
