// Products of experts' rows where experts are cut over devices and have no capacity: rows go to
// their experts' devices, and the products come back. Rows stay there from product to product, so
// the partitioner traces what a device does (ir/transforms/conversions/expert_rows.h); here stands
// what propagation asks.
//
// Threads: pure functions.
#pragma once

#include "ir/op_table/op.h"

namespace gangway::internal {

inline constexpr std::string_view kDroplessExperts = "dropless_experts";

// Default of `bound`: a device has room for so many times the rows that it has itself.
inline constexpr double kDroplessBound = 2;

DistributedOp dropless_product();  // grouped_dot
DistributedOp dropless_grad_w();   // grouped_dot_grad_w

}  // namespace gangway::internal
