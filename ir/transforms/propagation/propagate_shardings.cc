#include "ir/transforms/propagation/propagate_shardings.h"

#include <algorithm>

#include "ir/transforms/propagation/decide_cuts.h"

namespace gangway {
namespace {

std::vector<Factors> factors_of(const Function& function) {
  std::vector<Factors> all;
  all.reserve(function.nodes.size());
  std::vector<Type> inputs;
  for (const Node& node : function.nodes) {
    inputs.clear();
    for (ValueId input : node.inputs) inputs.push_back(function.types[input]);
    all.push_back(row(node.op).factors({node.op, inputs, node.attrs, node.body.get()}));
  }
  return all;
}

// Walks the nodes in their order: what each gives, from how it is cut and what its operands are.
class Placer {
 public:
  Placer(const Function& global, const std::vector<Factors>& factors, Cuts cuts)
      : global_(global), factors_(factors), cuts_(std::move(cuts)) {}

  Propagation run(const std::vector<Sharding>& parameter_shardings) {
    out_.shardings.assign(global_.types.size(), replicated(global_.mesh));
    std::ranges::copy(parameter_shardings, out_.shardings.begin());
    out_.reasons = std::move(cuts_.reasons);
    out_.required.resize(global_.nodes.size());
    for (NodeId id = 0; id < global_.nodes.size(); ++id) visit(id);
    out_.parts = std::move(cuts_.parts);
    out_.decisions = std::move(cuts_.decisions);
    out_.steps = cuts_.steps;
    return std::move(out_);
  }

 private:
  void visit(NodeId id) {
    const Node& node = global_.nodes[id];
    out_.required[id].assign(node.inputs.size(), replicated(global_.mesh));
    for (size_t axis = 0; axis < global_.mesh.axes.size(); ++axis) {
      if (global_.mesh.axes[axis].size == 1) continue;
      if (cuts_.nodes[id][axis].factor >= 0) {
        place_cut(id, axis);
      } else {
        place_whole(id, axis);
      }
    }
    for (Sharding& required : out_.required[id]) make_canonical(required);
    for (uint32_t r = 0; r < node.results; ++r)
      make_canonical(out_.shardings[node.first_result + r]);
  }

  // Of orders alone: nothing else is placed in two ways here.
  void make_canonical(Sharding& sharding) const {
    if (std::ranges::any_of(sharding, [](const Placement& placed) { return placed.order != 0; }))
      sharding = canonical(global_.mesh, std::move(sharding));
  }

  void place_cut(NodeId id, size_t axis) {
    const Node& node = global_.nodes[id];
    const NodeCut& cut = cuts_.nodes[id][axis];
    const Factor& factor = factors_[id][static_cast<size_t>(cut.factor)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (factor.input_dims[i] >= 0)
        out_.required[id][i][axis] = shard(factor.input_dims[i], cut.order);
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      const int dim = factor.result_dims[r];
      if (dim >= 0) {
        give(node.first_result + r, axis, shard(dim, cut.order), {cut.from, id});
      } else if (factor.kind == FactorKind::kReduce) {
        give(node.first_result + r, axis, partial(), {cut.from, id});
      } else {
        give(node.first_result + r, axis, replicate(), {cut.from, id});
      }
    }
  }

  void place_whole(NodeId id, size_t axis) {
    const Node& node = global_.nodes[id];
    const bool passes = cuts_.nodes[id][axis].factor == NodeCut::kOpen && passes_partial(id, axis);
    ValueId from = kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_sum = is_partial(out_.shardings[node.inputs[i]][axis]);
      if (is_sum || from == kNone) from = node.inputs[i];
      if (is_sum && passes) out_.required[id][i][axis] = partial();
    }
    for (uint32_t r = 0; r < node.results; ++r)
      give(node.first_result + r, axis, passes ? partial() : replicate(), {from, id});
  }

  // A value that lies as its readers meet it has the reason of that already.
  void give(ValueId value, size_t axis, Placement placement, ShardingReason reason) {
    out_.shardings[value][axis] = placement;
    if (placement != cuts_.layouts[value][axis] || placement == replicate())
      out_.reasons[value][axis] = reason;
  }

  // Partial operands that pass through, given that the node is not cut.
  bool passes_partial(NodeId id, size_t axis) const {
    const Node& node = global_.nodes[id];
    if (node.op == Op::broadcast) return false;  // Cheaper summed before it grows.
    size_t partials = 0, floats = 0;
    bool first = false;
    // Integer division, truncation and indices are not linear.
    for (uint32_t r = 0; r < node.results; ++r) {
      if (!is_float(global_.types[node.first_result + r].dtype)) return false;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool number = is_float(global_.types[node.inputs[i]].dtype);
      floats += number;
      if (!is_partial(out_.shardings[node.inputs[i]][axis])) continue;
      if (!number) return false;
      ++partials;
      first |= i == 0;
    }
    if (partials == 0) return false;
    switch (row(node.op).linear) {
      case Linear::kNo: return false;
      case Linear::kAll: return partials == floats;
      case Linear::kEach: return partials == 1;
      case Linear::kFirst: return partials == 1 && first;
    }
    return false;
  }

  const Function& global_;
  const std::vector<Factors>& factors_;
  Cuts cuts_;
  Propagation out_;
};

}  // namespace

Propagation propagate_shardings(const Function& global,
                                const std::vector<Sharding>& parameter_shardings,
                                const std::vector<Sharding>& result_shardings) {
  const std::vector<Factors> factors = factors_of(global);
  const std::vector<Annotation> annotations =
      annotations_of(global, parameter_shardings, result_shardings);
  Cuts cuts = decide_cuts(global, factors, annotations);
  return Placer(global, factors, std::move(cuts)).run(parameter_shardings);
}

}  // namespace gangway
