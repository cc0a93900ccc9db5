#include "tests/strategies/rank_orders.h"

#include <algorithm>
#include <utility>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

// A function that gives the tokens in another order of ranks, cut as before.
Function reordered(const Function& of, ValueId tokens, const RankOrder& order) {
  const Type& type = of.types[tokens];
  const int64_t rows = type.dims[0] / kOrderedRanks;
  std::vector<int32_t> from;
  for (const int64_t rank : order) {
    for (int64_t row = 0; row < rows; ++row)
      from.push_back(static_cast<int32_t>(rank * rows + row));
  }
  Builder b("reordered", of.mesh);
  const AxisPlacements& cut = of.parameters[tokens].placements;
  const Value all = b.parameter("tokens", type, cut);
  b.result("tokens", b.shard(take(all, table(b, from)), cut));
  return b.build();
}

// `of`, changed so that it reads its parameter `tokens` through `first`, a function of that
// parameter alone.
Function behind(const Function& first, Function of, ValueId tokens) {
  const auto parameters = static_cast<ValueId>(of.parameters.size());
  const ValueId added = first.value_count() - 1;
  const auto in_first = [&](ValueId v) { return v == 0 ? tokens : parameters + v - 1; };
  const auto in_rest = [&](ValueId v) {
    if (v == tokens) return in_first(first.results[0]);
    return v < parameters ? v : v + added;
  };
  for (Node& node : of.nodes) {
    for (ValueId& input : node.inputs) input = in_rest(input);
    node.first_result += added;
  }
  for (ValueId& result : of.results) result = in_rest(result);
  std::vector<Node> nodes = first.nodes;
  for (Node& node : nodes) {
    for (ValueId& input : node.inputs) input = in_first(input);
    node.first_result = in_first(node.first_result);
  }
  const auto nodes_added = static_cast<NodeId>(nodes.size());
  for (NodeInfo& info : of.infos) {
    if (info.origin != kNone) info.origin += nodes_added;
  }
  of.nodes.insert(of.nodes.begin(), nodes.begin(), nodes.end());
  of.infos.insert(of.infos.begin(), nodes_added, NodeInfo{});
  of.types.insert(of.types.begin() + parameters, first.types.begin() + 1, first.types.end());
  return of;
}

}  // namespace

Program with_ranks_in_order(const Program& step, const RankOrder& order) {
  Program changed = step;
  const uint32_t source = changed.find(NodeKind::kSource, "tokens");
  GW_REQUIRE(source != kNone, "the program has no source of tokens");
  for (const ProgramNode& node : step.nodes) {
    const auto read = std::ranges::find(node.inputs, source, &Edge::node);
    if (node.kind != NodeKind::kCall || read == node.inputs.end()) continue;
    const auto tokens = static_cast<ValueId>(read - node.inputs.begin());
    auto& function = changed.functions[node.function];
    function = std::make_shared<const Function>(
        behind(reordered(*function, tokens, order), *function, tokens));
  }
  return changed;
}

}  // namespace gangway::programs
