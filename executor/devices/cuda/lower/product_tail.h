// The effect of an element-wise chain on a product of matrices, as a library's epilogue.
//
// Threads: pure.
#pragma once

#include <optional>
#include <vector>

#include "executor/devices/cuda/driver/calls.h"
#include "ir/graph/function.h"

namespace gangway::cuda {

// The effect of a chain on the parameter of its body that is the product. `bias`, `added` and `pre`
// name other parameters; kNone: there is none.
struct ProductTail {
  Activation activation = Activation::kNone;
  uint32_t bias = kNone;
  uint32_t added = kNone;  // Has the product's shape.
  uint32_t pre = kNone;    // Has it too; the product is multiplied by the activation's slope there.

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
