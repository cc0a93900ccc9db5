// References of scans and calls, on one device or on all devices of a mesh in lockstep.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "ir/op_table/op.h"
#include "tests/interpret/literal.h"

namespace gangway::internal {

using OfDevices = std::vector<std::vector<Literal>>;  // [device][operand or result]

// Runs the body on all devices. `skip`: for each node, whether it is passed over.
using RunBody = std::function<OfDevices(const OfDevices&, const std::vector<bool>& skip)>;
OfDevices run_scan(const OpCall& call, const OfDevices& operands, const RunBody& run);

}  // namespace gangway::internal
