// A product whose element-wise chain a library's epilogue can do, as one node.
//
// The chain must be a bias for each column, an activation of the product, or both; or the sum with
// one other tensor, as of a residual, which may be an op alone. The node is a
// fusion like the chain's, with the chain's body; but instead of the product itself it has the
// product's two operands, last among its inputs, and the product's attributes. kProductAttr says
// which parameter of the body the product is. Where another node needs the product too, it is the
// node's second result.
//
// Why it is not a pass for all devices: a device without such a library would have to split the
// node again.
// Threads: pure.
#pragma once

#include <optional>

#include "executor/devices/cuda/driver/calls.h"
#include "ir/plan/plan.h"

namespace gangway::cuda {

inline constexpr const char* kProductAttr = "product";

// The same function with such nodes, in the bodies of its scans and calls too. Its results,
// parameters and what is in place stay.
LocalFunction fuse_products(const LocalFunction& local);

// What a chain does to parameter `product` of its body.
struct ProductTail {
  Activation activation = Activation::kNone;
  uint32_t bias = kNone;   // Parameter of the body.
  uint32_t added = kNone;  // The same: of the product's shape.
};
std::optional<ProductTail> product_tail(const Function& body, uint32_t product);

}  // namespace gangway::cuda
