// A product whose element-wise chain a library's epilogue can do, as one node.
//
// The chain must be a bias for each column, an activation of the product, or both; or the product
// times the slope of a gelu; or the sum with other tensors, as of a residual or of gradients: there
// each product adds to what came before it, and a chain of the other tensors remains where there
// are several. A sum may be an op alone. The node is a
// fusion like the chain's, with the chain's body; but instead of the product itself it has the
// product's two operands, last among its inputs, and the product's attributes. kProductAttr says
// which parameter of the body the product is. Where another node needs the product too, it is the
// node's second result.
//
// Why it is not a pass for all devices: a device without such a library would have to split the
// node again.
// Threads: pure.
#pragma once

#include "ir/plan/plan.h"

namespace gangway::cuda {

inline constexpr const char* kProductAttr = "product";

// The same function with such nodes, in the bodies of its scans and calls too. Its results,
// parameters and what is in place stay.
LocalFunction fuse_products(const LocalFunction& local);

}  // namespace gangway::cuda
