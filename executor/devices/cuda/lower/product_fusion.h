// Joins a product and the element-wise chain behind it into one node, where a library's epilogue
// can compute the chain.
//
// The chain must be a bias for each column, an activation of the product, or both; or the product
// times the slope of a gelu; or the sum with other tensors, such as a residual or other gradients.
// In a sum each product adds to the sum of the terms before it, and several other tensors are first
// summed by a chain of their own. A sum may also be a single op. The joined node is a fusion with
// the chain's body; but instead of the product itself it has the product's two operands, last among
// its inputs, and the product's attributes. kProductAttr says which parameter of the body the
// product is. Where another node needs the product too, it is the node's second result.
//
// Why it is not a pass for all devices: a device without such a library would have to split the
// node again.
// Threads: pure.
#pragma once

#include "ir/plan/plan.h"

namespace gangway::cuda {

inline constexpr const char* kProductAttr = "product";

// The same function with such nodes, in the bodies of its scans and calls too. Its results,
// parameters and in-place pairs stay.
LocalFunction fuse_products(const LocalFunction& local);

}  // namespace gangway::cuda
