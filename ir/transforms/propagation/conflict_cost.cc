#include "ir/transforms/propagation/conflict_cost.h"

#include <tuple>

#include "ir/op_table/distributed_op.h"

namespace gangway {

const Placement& ConflictCost::layout(ValueId value, int axis) const {
  return layouts_[value][static_cast<size_t>(axis)];
}

CutCost ConflictCost::of(NodeId id, int axis, int index) const {
  const Node& node = graph_.nodes[id];
  const Factor& factor = factors_[id][static_cast<size_t>(index)];
  CutCost cost;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Placement& placed = layout(node.inputs[i], axis);
    if (placed.kind == PlacementKind::kShard && placed.dim != factor.input_dims[i])
      add(cost, node.inputs[i], axis, factor.input_dims[i] >= 0);
  }
  for (uint32_t r = 0; r < node.results; ++r) {
    const Placement& placed = layout(node.first_result + r, axis);
    const int dim = factor.result_dims[r];
    if (placed.kind != PlacementKind::kShard || placed.dim == dim) continue;
    if (dim >= 0 || factor.kind == FactorKind::kReduce)
      add(cost, node.first_result + r, axis, dim >= 0);
  }
  if (!factor.distributed_op.empty()) {
    const std::vector<Type> inputs = input_types(graph_, node);
    const OpCall call{node.op, inputs, node.attrs, node.body.get()};
    const int64_t members = graph_.mesh.axes[static_cast<size_t>(axis)].size;
    const double sent = distributed_op_of(node.op, factor.distributed_op).sent_bytes(call, members);
    cost.conversions += sent > 0 ? 1 : 0;
    cost.bytes += sent;
  }
  return cost;
}

// All but one share of the tensor's part over the other axes comes from other devices; if it is
// cut anew, each device wants only its share of that.
void ConflictCost::add(CutCost& cost, ValueId value, int axis, bool is_cut_anew) const {
  const auto& axes = graph_.mesh.axes;
  auto bytes = static_cast<double>(graph_.types[value].bytes());
  for (int other = 0; other < static_cast<int>(axes.size()); ++other) {
    if (other != axis && layout(value, other).kind == PlacementKind::kShard)
      bytes /= static_cast<double>(axes[static_cast<size_t>(other)].size);
  }
  const auto n = static_cast<double>(axes[static_cast<size_t>(axis)].size);
  cost.conversions += 1;
  cost.stored += stored_.contains(value, axis) ? 1 : 0;
  cost.bytes += bytes * (n - 1) / n / (is_cut_anew ? n : 1);
}

bool is_cheaper(const CutCost& a, const CutCost& b) {
  return std::tie(a.conversions, a.stored, a.bytes) < std::tie(b.conversions, b.stored, b.bytes);
}

}  // namespace gangway
