#include "ir/op_table/rows/dropless_experts.h"

#include <algorithm>

namespace gangway::internal {
namespace {

// Rows that are routed evenly: all but those that stay are sent, and come back as wide as they are
// then.
double product_sends(const OpCall& call, int64_t members) {
  const Type& x = call.inputs[0];
  const auto n = static_cast<double>(members);
  const auto width =
      static_cast<double>(call.inputs[1].dims[call.attrs.flag("transpose_w") ? 1 : 2]);
  const auto there = static_cast<double>(x.bytes());
  const double back = there / static_cast<double>(std::max<int64_t>(1, x.dims[2])) * width;
  return (there + back) / n * (n - 1) / n;
}

// Both operands lie there already: one went into the product that this is the gradient of, the
// other into that for the gradient of its rows.
double grad_w_sends(const OpCall&, int64_t) { return 0; }

}  // namespace

DistributedOp dropless_product() {
  return {.name = kDroplessExperts,
          .sent_bytes = product_sends,
          .doc = "experts and groups cut: rows go to their experts' devices and back"};
}

DistributedOp dropless_grad_w() {
  return {.name = kDroplessExperts,
          .sent_bytes = grad_w_sends,
          .doc = "experts and groups cut: rows of both operands go to their experts' devices"};
}

}  // namespace gangway::internal
