#include "ir/op_table/lowering.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {

const Lowering& lowering_of(Op op, std::string_view name) {
  const std::vector<Lowering>& all = row(op).lowerings;
  const auto found = std::ranges::find(all, name, &Lowering::name);
  GW_ASSERT(found != all.end(), to_string(op), " has no lowering ", name);
  return *found;
}

const Factor* lowered_factor(const Factors& factors, std::span<const int64_t> parts) {
  const Factor* lowered = nullptr;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].lowering.empty() || parts[f] == 1) continue;
    GW_ASSERT(lowered == nullptr, "two lowered factors are cut");
    lowered = &factors[f];
  }
  return lowered;
}

}  // namespace gangway
