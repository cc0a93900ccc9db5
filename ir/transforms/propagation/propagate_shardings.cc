#include "ir/transforms/propagation/propagate_shardings.h"

#include <utility>

#include "ir/transforms/propagation/decide_cuts.h"
#include "ir/transforms/propagation/joint_graph.h"
#include "ir/transforms/propagation/place_values.h"
#include "ir/transforms/propagation/residual_sharding.h"

namespace gangway {
namespace {

// A residual that was to be kept as a sum may be none, where what it is made of is kept so too.
void forget_dropped_sums(const Function& graph, const PlacedValues& placed, Cuts& cuts) {
  std::erase_if(cuts.decisions, [&](const ShardingDecision& decision) {
    const auto axis = static_cast<size_t>(decision.axis);
    const ValueId stack = graph.nodes[decision.node].first_result;
    return decision.factor == NodeCut::kWhole && cuts.kept_sums.contains({decision.node, axis}) &&
           !is_partial(placed.shardings[stack][axis]);
  });
}

// Hands each function its own part of what was found for the graph.
class Divider {
 public:
  Divider(const JointGraph& joint, PlacedValues placed, std::vector<std::vector<int64_t>> parts)
      : joint_(joint), placed_(std::move(placed)), parts_(std::move(parts)) {}

  FunctionShardings of(size_t at) {
    if (joint_.parts().size() == 1)
      return {std::move(placed_.shardings), std::move(placed_.required), std::move(parts_)};
    const JointGraph::Part& part = joint_.parts()[at];
    FunctionShardings out;
    for (ValueId value : part.values) out.shardings.push_back(placed_.shardings[value]);
    for (NodeId id = 0; id < part.nodes.size(); ++id) {
      const NodeId node = part.nodes[id];
      out.parts.push_back(node == kNone ? std::vector<int64_t>() : std::move(parts_[node]));
      out.required.push_back(node == kNone ? wanted_by_body(out, at, id)
                                           : std::move(placed_.required[node]));
    }
    // Behind the operands of a carry stands what the body gives.
    for (NodeId tie : part.results) out.results.push_back(placed_.required[tie].back());
    return out;
  }

 private:
  std::vector<Sharding> wanted_by_body(FunctionShardings& out, size_t at, NodeId id) const {
    const JointGraph::Use use = joint_.use(at, id);
    out.body_of[id] = use.body - 1;
    std::vector<Sharding> wanted;
    for (NodeId tie : joint_.parts()[use.body].operands)
      wanted.push_back(placed_.required[tie][use.place]);
    return wanted;
  }

  const JointGraph& joint_;
  PlacedValues placed_;
  std::vector<std::vector<int64_t>> parts_;
};

}  // namespace

Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings,
                                const std::vector<Sharding>& result_shardings) {
  const JointGraph joint(global);
  const std::vector<Factors> factors = factors_of(joint);
  const std::vector<Annotation> annotations =
      annotations_of(joint.graph(), parameter_shardings, result_shardings);
  Cuts cuts = decide_cuts(joint, factors, annotations);
  PlacedValues placed = place_values(joint, factors, cuts, parameter_shardings);
  if (shard_residuals(joint, placed, cuts)) {
    placed = place_values(joint, factors, cuts, parameter_shardings);
    forget_dropped_sums(joint.graph(), placed, cuts);
  }
  Propagation found;
  found.reasons = std::move(placed.reasons);
  found.decisions = std::move(cuts.decisions);
  found.steps = cuts.steps;
  Divider divider(joint, std::move(placed), std::move(cuts.parts));
  static_cast<FunctionShardings&>(found) = divider.of(0);
  for (size_t part = 1; part < joint.parts().size(); ++part)
    found.bodies.push_back(divider.of(part));
  return found;
}

}  // namespace gangway
