#include "ir/transforms/propagation/propagate_shardings.h"

#include <optional>

#include "runtime/base/error.h"

namespace gangway {
namespace {

// How a node is cut along one mesh axis.
struct Cut {
  int factor = -1;            // Index into its factors; -1: not cut.
  bool keep_partial = false;  // Operands that are partial stay so, and so are the results.
};

int factor_of_input(const Factors& factors, size_t input, int dim) {
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].input_dims[input] == dim) return static_cast<int>(f);
  }
  return -1;
}

int factor_of_result(const Factors& factors, size_t result, int dim) {
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].result_dims[result] == dim) return static_cast<int>(f);
  }
  return -1;
}

// Propagation along one mesh axis. Of the axes before it, it sees in how many parts each factor is
// cut already: an axis that would not divide a part evenly does not cut it.
class AxisPropagation {
 public:
  AxisPropagation(const Function& function, const std::vector<Factors>& factors,
                  const std::vector<std::vector<int64_t>>& parts, int64_t size)
      : function_(function),
        factors_(factors),
        parts_(parts),
        size_(size),
        producers_(producers(function)) {
    placements_.resize(function.types.size());
    reasons_.resize(function.types.size());
    cuts_.resize(function.nodes.size());
  }

  void annotate(ValueId parameter, Placement placement) {
    placements_[parameter] = placement;
    reasons_[parameter] = {parameter, kNone};
  }

  void run() {
    for (NodeId id = 0; id < function_.nodes.size(); ++id) visit(id);
    for (auto& placement : placements_) {
      if (!placement) placement = replicate();
    }
  }

  Placement placement(ValueId value) const { return *placements_[value]; }
  ShardingReason reason(ValueId value) const { return reasons_[value]; }
  int cut_factor(NodeId id) const { return cuts_[id].factor; }

  Placement required(NodeId id, size_t input) const {
    const Cut& cut = cuts_[id];
    ValueId value = function_.nodes[id].inputs[input];
    if (cut.factor >= 0) {
      int dim = factors_[id][static_cast<size_t>(cut.factor)].input_dims[input];
      return dim >= 0 ? shard(dim) : replicate();
    }
    if (cut.keep_partial && *placements_[value] == partial()) return partial();
    return replicate();
  }

 private:
  bool can_cut(NodeId id, int index) const {
    const auto f = static_cast<size_t>(index);
    const Factor& factor = factors_[id][f];
    return factor.kind != FactorKind::kWhole && factor.size % (size_ * parts_[id][f]) == 0 &&
           factor.size > 0;
  }

  // The factor that the operands' shardings vote for, weighted by bytes; `from` is the operand that
  // decided.
  int vote(NodeId id, ValueId* from) const {
    const Node& node = function_.nodes[id];
    const Factors& factors = factors_[id];
    std::vector<int64_t> bytes(factors.size(), 0);
    int best = -1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto& placement = placements_[node.inputs[i]];
      if (!placement || placement->kind != PlacementKind::kShard) continue;
      int f = factor_of_input(factors, i, placement->dim);
      if (f < 0 || !can_cut(id, f)) continue;
      bytes[static_cast<size_t>(f)] += function_.types[node.inputs[i]].bytes();
      if (best < 0 || bytes[static_cast<size_t>(f)] > bytes[static_cast<size_t>(best)]) {
        best = f;
        *from = node.inputs[i];
      }
    }
    return best;
  }

  // May partial operands pass through, given that the node is not cut?
  bool passes_partial(NodeId id) const {
    const Node& node = function_.nodes[id];
    if (node.op == Op::broadcast) return false;  // Cheaper summed before it grows.
    size_t partials = 0, floats = 0;
    bool first = false;
    // Integer division, truncation and indices are not linear.
    for (uint32_t r = 0; r < node.results; ++r) {
      if (!is_float(function_.types[node.first_result + r].dtype)) return false;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool number = is_float(function_.types[node.inputs[i]].dtype);
      floats += number;
      if (placements_[node.inputs[i]] != partial()) continue;
      if (!number) return false;
      ++partials;
      first |= i == 0;
    }
    switch (row(node.op).linear) {
      case Linear::kNo: return false;
      case Linear::kAll: return partials == floats;
      case Linear::kEach: return partials == 1;
      case Linear::kFirst: return partials == 1 && first;
    }
    return false;
  }

  void visit(NodeId id) {
    const Node& node = function_.nodes[id];
    ValueId from = kNone;
    int factor = vote(id, &from);
    if (factor >= 0) {
      cut(id, factor, {from, id});
      settle();
      return;
    }
    bool any_partial = false, all_open = true;
    for (ValueId input : node.inputs) {
      any_partial |= placements_[input] == partial();
      all_open &= !placements_[input].has_value();
      if (placements_[input] && from == kNone) from = input;
    }
    if (any_partial) {
      cuts_[id].keep_partial = passes_partial(id);
      for (ValueId input : node.inputs) {
        wish(input, replicate(), {from, id});
        if (placements_[input] == partial()) from = input;
      }
      set_results(id, cuts_[id].keep_partial ? partial() : replicate(), {from, id});
      return;
    }
    // Broadcasts into new dimensions, and values without operands, stay open: their consumers
    // decide.
    if (all_open || node.op == Op::broadcast) return;
    for (ValueId input : node.inputs) wish(input, replicate(), {from, id});
    set_results(id, replicate(), {from, id});
  }

  void set_results(NodeId id, Placement placement, ShardingReason reason) {
    const Node& node = function_.nodes[id];
    for (uint32_t r = 0; r < node.results; ++r) {
      placements_[node.first_result + r] = placement;
      reasons_[node.first_result + r] = reason;
    }
  }

  // Cuts a node on a factor: its results follow, and operands that were open.
  void cut(NodeId id, int factor_index, ShardingReason reason) {
    const Node& node = function_.nodes[id];
    const Factor& factor = factors_[id][static_cast<size_t>(factor_index)];
    cuts_[id].factor = factor_index;
    for (uint32_t r = 0; r < node.results; ++r) {
      int dim = factor.result_dims[r];
      placements_[node.first_result + r] = dim >= 0 ? shard(dim) : partial();
      reasons_[node.first_result + r] = reason;
    }
    for (size_t i = node.inputs.size(); i-- > 0;)
      wishes_.push_back({node.inputs[i], required(id, i), {reason.from, id}});
  }

  // A consumer wants a value to be placed so.
  struct Wish {
    ValueId value;
    Placement wanted;
    ShardingReason reason;
  };

  // Places open values as their consumers want them; producers follow where they can, and want the
  // same of their own operands. A list instead of a recursion, since a user's chain of open values
  // may be longer than a stack allows.
  void settle() {
    while (!wishes_.empty()) {
      const Wish next = wishes_.back();
      wishes_.pop_back();
      if (!placements_[next.value]) decide(next.value, next.wanted, next.reason);
    }
  }

  void wish(ValueId value, Placement wanted, ShardingReason reason) {
    wishes_.push_back({value, wanted, reason});
    settle();
  }

  void decide(ValueId value, Placement wanted, ShardingReason reason) {
    NodeId id = producers_[value];
    if (id == kNone) {
      placements_[value] = replicate();
      reasons_[value] = reason;
      return;
    }
    const Node& node = function_.nodes[id];
    if (wanted.kind == PlacementKind::kShard) {
      int f = factor_of_result(factors_[id], value - node.first_result, wanted.dim);
      if (f >= 0 && can_cut(id, f)) {
        cut(id, f, reason);
        return;
      }
    }
    set_results(id, replicate(), reason);
    for (size_t i = node.inputs.size(); i-- > 0;)
      wishes_.push_back({node.inputs[i], replicate(), reason});
  }

  const Function& function_;
  const std::vector<Factors>& factors_;
  const std::vector<std::vector<int64_t>>& parts_;
  int64_t size_;
  std::vector<NodeId> producers_;
  std::vector<std::optional<Placement>> placements_;
  std::vector<ShardingReason> reasons_;
  std::vector<Cut> cuts_;
  std::vector<Wish> wishes_;
};

std::vector<Factors> factors_of(const Function& function) {
  std::vector<Factors> all;
  for (const Node& node : function.nodes) {
    std::vector<Type> inputs;
    inputs.reserve(node.inputs.size());
    for (ValueId input : node.inputs) inputs.push_back(function.types[input]);
    all.push_back(row(node.op).factors({node.op, inputs, node.attrs}));
  }
  return all;
}

std::string name_of(const Function& function, const std::vector<NodeId>& makers, ValueId value) {
  if (value < function.parameters.size()) {
    return cat("parameter \"", function.parameters[value].name, "\"");
  }
  NodeId id = makers[value];
  return cat("%", value, " = ", to_string(function.nodes[id].op), " (", where(function, id), ")");
}

}  // namespace

Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings) {
  std::vector<Factors> factors = factors_of(global);
  Propagation out;
  size_t axes = global.mesh.axes.size();
  out.shardings.assign(global.types.size(), Sharding(axes));
  out.reasons.assign(global.types.size(), std::vector<ShardingReason>(axes));
  for (const Node& node : global.nodes) {
    out.required.emplace_back(node.inputs.size(), Sharding(axes));
    out.parts.emplace_back(factors[out.parts.size()].size(), 1);
  }
  for (size_t axis = 0; axis < axes; ++axis) {
    if (global.mesh.axes[axis].size == 1) continue;
    AxisPropagation propagation(global, factors, out.parts, global.mesh.axes[axis].size);
    for (ValueId p = 0; p < global.parameters.size(); ++p) {
      propagation.annotate(p, parameter_shardings[p][axis]);
    }
    propagation.run();
    for (ValueId v = 0; v < global.types.size(); ++v) {
      out.shardings[v][axis] = propagation.placement(v);
      out.reasons[v][axis] = propagation.reason(v);
    }
    for (NodeId id = 0; id < global.nodes.size(); ++id) {
      if (const int factor = propagation.cut_factor(id); factor >= 0)
        out.parts[id][static_cast<size_t>(factor)] *= global.mesh.axes[axis].size;
      for (size_t i = 0; i < global.nodes[id].inputs.size(); ++i) {
        out.required[id][i][axis] = propagation.required(id, i);
      }
    }
  }
  return out;
}

std::string explain(const Function& global, const Propagation& propagation, ValueId value) {
  std::vector<NodeId> makers = producers(global);
  std::string text;
  for (size_t axis = 0; axis < global.mesh.axes.size(); ++axis) {
    ValueId at = value;
    text += cat(name_of(global, makers, at), " is ", to_string(propagation.shardings[at][axis]),
                " on ", global.mesh.axes[axis].name);
    for (uint32_t steps = 0; steps < global.types.size(); ++steps) {
      const ShardingReason& reason = propagation.reasons[at][axis];
      if (reason.from == kNone || reason.from == at) break;
      text += cat("\n  because ", name_of(global, makers, reason.from), " is ",
                  to_string(propagation.shardings[reason.from][axis]));
      if (reason.through != kNone) {
        text += cat("; through ", to_string(global.nodes[reason.through].op), " at ",
                    line_of(global, reason.through));
      }
      at = reason.from;
    }
    text += at < global.parameters.size() ? ", as annotated\n" : "\n";
  }
  return text;
}

}  // namespace gangway
