#include "ir/transforms/memory/own_results.h"

#include <set>

namespace gangway {

Function own_results(Function local) {
  std::set<ValueId> taken;
  for (ValueId& result : local.results) {
    if (result >= local.parameters.size() && taken.insert(result).second) continue;
    Node copy{.op = Op::barrier, .inputs = {result}, .first_result = local.value_count()};
    result = copy.first_result;
    local.types.push_back(Type(local.types[copy.inputs[0]]));
    local.nodes.push_back(std::move(copy));
    local.infos.push_back({.reason = Reason::kPartition});
  }
  return local;
}

}  // namespace gangway
