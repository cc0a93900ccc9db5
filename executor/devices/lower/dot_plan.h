// Turns a `dot` of any dimensions into one batched product of matrices, on any device.
//
// Threads: pure.
#pragma once

#include <optional>

#include "executor/kernels/matmul.h"
#include "executor/kernels/move.h"
#include "ir/types/attrs.h"
#include "ir/types/type.h"

namespace gangway {

struct DotPlan {
  MatmulDesc desc;
  // An operand whose dimensions are in no order that the product can read is moved first.
  std::optional<StridedCopy> move_a, move_b;
};
DotPlan plan_dot(const Attrs& attrs, const Type& a, const Type& b, DType out);

}  // namespace gangway
