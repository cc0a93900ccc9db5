// What an element-wise chain does to a product of matrices, in the terms of a library's epilogue.
//
// Threads: pure.
#pragma once

#include <optional>
#include <vector>

#include "executor/devices/cuda/driver/calls.h"
#include "ir/graph/function.h"

namespace gangway::cuda {

// What a chain does to parameter `product` of its body; the others are parameters too.
struct ProductTail {
  Activation activation = Activation::kNone;
  uint32_t bias = kNone;
  uint32_t added = kNone;  // Of the product's shape.
  uint32_t pre = kNone;    // The same: the product is multiplied by the activation's slope there.

  Epilogue epilogue(bool keep_input) const {
    return {.bias = bias != kNone,
            .added = added != kNone,
            .activation = activation,
            .keep_input = keep_input,
            .gradient = pre != kNone};
  }
};
// None: no epilogue does that.
std::optional<ProductTail> product_tail(const Function& body, uint32_t product);

// Whether a chain's result is the sum of all that it reads, each of the result's type and once.
bool is_sum_of_all(const Function& body);

}  // namespace gangway::cuda
