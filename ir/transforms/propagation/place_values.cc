#include "ir/transforms/propagation/place_values.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/transforms/propagation/sum_carries.h"
#include "ir/transforms/propagation/sum_terms.h"

namespace gangway {
namespace {

// Walks the nodes in their order: what each gives, from how it is cut and what its operands are.
class Placer {
 public:
  Placer(const JointGraph& joint, const std::vector<Factors>& factors, const Cuts& cuts)
      : joint_(joint), global_(joint.graph()), factors_(factors), cuts_(cuts) {
    assume_sums();
  }

  PlacedValues run(const std::vector<Sharding>& parameter_shardings) {
    for (int round = 0;; ++round) {
      if (round == kRoundsMax) sums_.clear();
      out_.shardings.assign(global_.types.size(), replicated(global_.mesh));
      std::ranges::copy(parameter_shardings, out_.shardings.begin());
      out_.reasons = cuts_.reasons;
      out_.required.assign(global_.nodes.size(), {});
      for (NodeId id = 0; id < global_.nodes.size(); ++id) visit(id);
      const auto is_no_sum = [&](const TieOnAxis& at) {
        return !is_partial(out_.shardings[global_.nodes[at.first].inputs.back()][at.second]);
      };
      if (std::erase_if(sums_, is_no_sum) == 0) return std::move(out_);
    }
  }

 private:
  static constexpr int kRoundsMax = 8;  // Then no carry is assumed to be a sum.
  using TieOnAxis = std::pair<NodeId, size_t>;

  void assume_sums() {
    sums_ = cuts_.kept_sums;
    const std::vector<bool> is_sum = sum_carries(joint_).ties;
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      for (size_t axis = 0; is_sum[id] && axis < global_.mesh.axes.size(); ++axis) {
        if (global_.mesh.axes[axis].size > 1 && cuts_.nodes[id][axis].factor == NodeCut::kOpen)
          sums_.insert({id, axis});
      }
    }
  }

  void visit(NodeId id) {
    const Node& node = global_.nodes[id];
    out_.required[id].assign(node.inputs.size(), replicated(global_.mesh));
    for (size_t axis = 0; axis < global_.mesh.axes.size(); ++axis) {
      if (global_.mesh.axes[axis].size == 1) continue;
      if (adds_terms(id, axis)) {
        place_sum(id, axis);
      } else if (cuts_.nodes[id][axis].factor >= 0) {
        place_cut(id, axis);
      } else if (joint_.is_tie(id)) {
        place_tie(id, axis);
      } else {
        place_whole(id, axis);
      }
    }
    for (Sharding& required : out_.required[id]) make_canonical(required);
    for (uint32_t r = 0; r < node.results; ++r)
      make_canonical(out_.shardings[node.first_result + r]);
  }

  // Canonicalises orders alone: nothing else is placed in two ways here.
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

  // A sum whose operands are all sums along the axis that are not done: they are added as they are,
  // and the result is reduced once, to where its readers want it.
  bool adds_terms(NodeId id, size_t axis) const {
    const Node& node = global_.nodes[id];
    if (node.op != Op::add && node.op != Op::sub) return false;
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      return is_partial(out_.shardings[input][axis]) && is_float(global_.types[input].dtype);
    });
  }

  void place_sum(NodeId id, size_t axis) {
    for (Sharding& required : out_.required[id]) required[axis] = partial();
    give(global_.nodes[id].first_result, axis, partial(), {global_.nodes[id].inputs[0], id});
  }

  void place_tie(NodeId id, size_t axis) {
    const Node& node = global_.nodes[id];
    const bool is_sum = sums_.contains({id, axis});
    for (Sharding& required : out_.required[id]) {
      if (is_sum) required[axis] = partial();
    }
    for (uint32_t r = 0; r < node.results; ++r)
      give(node.first_result + r, axis, is_sum ? partial() : replicate(), {node.inputs[0], id});
  }

  void place_whole(NodeId id, size_t axis) {
    const Node& node = global_.nodes[id];
    const bool passes = cuts_.nodes[id][axis].factor == NodeCut::kOpen &&
                        passes_sums(global_, id, [&](ValueId input) {
                          return is_partial(out_.shardings[input][axis]);
                        });
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

  const JointGraph& joint_;
  const Function& global_;
  const std::vector<Factors>& factors_;
  const Cuts& cuts_;
  std::set<TieOnAxis> sums_;  // Carries and residuals that are partial.
  PlacedValues out_;
};

}  // namespace

PlacedValues place_values(const JointGraph& joint, const std::vector<Factors>& factors,
                          const Cuts& cuts, const std::vector<Sharding>& parameter_shardings) {
  return Placer(joint, factors, cuts).run(parameter_shardings);
}

}  // namespace gangway
