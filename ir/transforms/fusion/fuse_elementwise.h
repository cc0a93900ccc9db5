// Chains of element-wise nodes over one shape become one `fusion` node, run in cache-sized chunks:
// each operand is read once, each result written once.
//
// A fusion's body is a local function of the same shape throughout; constants, and broadcasts of a
// scalar, of a row (leading dimensions are new) or of a column (trailing dimensions are new), are
// pulled into it. A node joins the chain that computes one of its operands unless an operand from
// outside the chain depends on the chain.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Operands of one fusion beyond which chains are not grown: a chunk of each must stay in the
// first-level cache.
inline constexpr size_t kFusionOperandsMax = 12;
inline constexpr size_t kFusionNodesMax = 48;

Function fuse_elementwise(const Function& local, NodeId& commit_begin);

}  // namespace gangway
