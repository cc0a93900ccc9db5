#include "ir/op_table/distributed_op.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {

const DistributedOp& distributed_op_of(Op op, std::string_view name) {
  const std::vector<DistributedOp>& all = row(op).distributed_ops;
  const auto found = std::ranges::find(all, name, &DistributedOp::name);
  GW_ASSERT(found != all.end(), to_string(op), " has no distributed op ", name);
  return *found;
}

const Factor* distributed_factor(const Factors& factors, std::span<const int64_t> parts) {
  const Factor* distributed = nullptr;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].distributed_op.empty() || parts[f] == 1) continue;
    GW_ASSERT(distributed == nullptr, "two factors with distributed ops are cut");
    distributed = &factors[f];
  }
  return distributed;
}

}  // namespace gangway
