#include <algorithm>
#include <map>
#include <utility>

#include "ir/transforms/propagation/decide_cuts.h"
#include "ir/transforms/propagation/joint_graph.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

class Explainer {
 public:
  Explainer(const Function& global, const Propagation& propagation)
      : joint_(global),
        global_(joint_.graph()),
        propagation_(propagation),
        makers_(producers(global_)) {
    for (const ShardingDecision& taken : propagation.decisions)
      decisions_.try_emplace({taken.node, static_cast<size_t>(taken.axis)}, &taken);
  }

  std::string run(ValueId value, const Function* in) const { return run(joint_.at(in, value)); }

 private:
  std::string run(ValueId value) const {
    std::string text;
    for (size_t axis = 0; axis < global_.mesh.axes.size(); ++axis) text += along(value, axis);
    return text;
  }

  const Placement& placement(ValueId value, size_t axis) const {
    const auto [part, own] = joint_.seen(value);
    const FunctionShardings& found = part == 0 ? propagation_ : propagation_.bodies[part - 1];
    return found.shardings[own][axis];
  }

  std::string along(ValueId value, size_t axis) const {
    std::string text = cat(name_of(value), " is ", to_string(placement(value, axis)), " on ",
                           global_.mesh.axes[axis].name);
    ValueId at = value;
    for (size_t steps = 0; steps < global_.types.size(); ++steps) {
      const ShardingReason& reason = propagation_.reasons[at][axis];
      if (reason.from == kNone || reason.from == at) break;
      text += cat("\n  because ", name_of(reason.from), " is ",
                  to_string(placement(reason.from, axis)));
      if (reason.through != kNone) {
        text += cat("; through ", to_string(global_.nodes[reason.through].op), " at ",
                    line_of(global_, reason.through), alternatives(reason.through, axis));
      }
      at = reason.from;
    }
    return text + annotation(at, axis) + "\n";
  }

  // ", as annotated", where the chain ends at something that the user said.
  std::string annotation(ValueId value, size_t axis) const {
    if (value < global_.parameters.size()) {
      const AxisPlacements& said = global_.parameters[value].placements;
      const bool is_named = std::ranges::any_of(
          said, [&](const auto& item) { return item.first == global_.mesh.axes[axis].name; });
      return is_named ? ", as annotated" : "";
    }
    const ShardingReason& reason = propagation_.reasons[value][axis];
    if (reason.from != value) return {};
    if (reason.through == kNone) return ", as annotated as a result";
    return cat(", as annotated at ", where(global_, reason.through));
  }

  // The cuts of the node that were rejected.
  std::string alternatives(NodeId node, size_t axis) const {
    const auto found = decisions_.find({node, axis});
    if (found == decisions_.end() || found->second->rejected.empty()) return {};
    const ShardingDecision* decision = found->second;
    std::string text = decision->factor == NodeCut::kWhole
                           ? " (kept as the forward pass reads it, which moves nothing)"
                           : cat(" (which moves ", cost(decision->cost), ")");
    for (const RejectedCut& rejected : decision->rejected) {
      text += cat("\n    not as ", name_of(rejected.from), " asks, which would have moved ",
                  cost(rejected.cost), rejected.of_later_priority ? ": its priority is later" : "");
    }
    return text;
  }

  static std::string cost(const CutCost& cost) {
    if (cost.conversions == 0) return "nothing";
    return cat(format_bytes(static_cast<uint64_t>(cost.bytes)), " in ", cost.conversions,
               cost.conversions == 1 ? " conversion" : " conversions");
  }

  std::string name_of(ValueId value) const {
    const auto [part, own] = joint_.seen(value);
    const Function& function = *joint_.parts()[part].function;
    const std::string in = part == 0 ? "" : cat(" of the body \"", function.name, "\"");
    if (own < function.parameters.size())
      return cat("parameter \"", function.parameters[own].name, "\"", in);
    const NodeId id = makers_[value];
    return cat("%", own, in, " = ", to_string(global_.nodes[id].op), " (", where(global_, id), ")");
  }

  const JointGraph joint_;
  const Function& global_;
  const Propagation& propagation_;
  const std::vector<NodeId> makers_;
  // Indexed by node and axis.
  std::map<std::pair<NodeId, size_t>, const ShardingDecision*> decisions_;
};

}  // namespace

std::string explain(const Function& global, const Propagation& propagation, ValueId value,
                    const Function* in) {
  return Explainer(global, propagation).run(value, in);
}

}  // namespace gangway
