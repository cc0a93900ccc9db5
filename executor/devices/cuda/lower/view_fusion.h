// Lets element-wise chains read operands where they lie: a broadcast, transpose or slice that would
// copy for chains alone becomes part of the chain, whose kernel finds each strip in the larger
// tensor.
//
// The fusion then has the tensor itself as its operand, and the broadcast, transpose or slice as a
// node of its body. A large element-wise op alone becomes a fusion for it; a small one would need a
// source of its own.
//
// A view stays a copy where
//   one of its readers is no chain, is a product with its chain, or is a chain that spreads it
//   another view reads it: of those the last one goes into the chain
//   its last dimension does not lie along memory, and it has several readers: each would read
//     scattered elements, which the copy reads once
//   its rows are no whole strips of 16 bytes, but the chain's elements are: the whole chain would
//     take fewer at a time
//   the tensor is over three times as large, and nobody else keeps it until the chain
//
// A diagnosis (LocalFunction::unfused) keeps views separate: elements that a view leaves out of a
// tensor would count as read.
// Why it is not a pass for all devices: the CPU's interpreter of chains reads what lies dense.
// Threads: pure.
#pragma once

#include "ir/plan/plan.h"

namespace gangway::cuda {

// The same function with such chains, in the bodies of its scans and calls too. Its results,
// parameters and in-place pairs stay.
LocalFunction fuse_views(const LocalFunction& local);

}  // namespace gangway::cuda
