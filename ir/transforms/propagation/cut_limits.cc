#include "ir/transforms/propagation/cut_limits.h"

namespace gangway {

bool CutLimits::can_cut(NodeId id, int at, int axis, int64_t asked) {
  const auto index = static_cast<size_t>(at);
  const Factor& factor = factors_[id][index];
  const int64_t parts = graph_.mesh.axes[static_cast<size_t>(axis)].size * parts_[id][index];
  if (factor.kind == FactorKind::kWhole || factor.size < parts) return false;
  if (!factor.distributed_op.empty() && is_distributed_along_another(id, index)) return false;
  if (!divides_with_others(id, index, parts)) return false;
  return factor.size % parts == 0 || (asked % parts == 0 && may_pad_along(id, factor));
}

// If a factor with a distributed op shares a dimension with another factor, parts must be equal.
bool CutLimits::divides_with_others(NodeId id, size_t index, int64_t parts) {
  const Node& node = graph_.nodes[id];
  const Factor& factor = factors_[id][index];
  const auto divides = [&](int64_t all, int a, int b, ValueId value) {
    return a < 0 || a != b || graph_.types[value].dims[static_cast<size_t>(a)] % all == 0;
  };
  for (size_t f = 0; f < factors_[id].size(); ++f) {
    const Factor& other = factors_[id][f];
    const int64_t all = parts * parts_[id][f];
    if (f == index || all == parts) continue;
    if (factor.distributed_op.empty() && other.distributed_op.empty()) continue;
    steps_ += static_cast<int64_t>(node.inputs.size() + node.results);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!divides(all, factor.input_dims[i], other.input_dims[i], node.inputs[i])) return false;
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      if (!divides(all, factor.result_dims[r], other.result_dims[r], node.first_result + r))
        return false;
    }
  }
  return true;
}

// A distributed op knows of its own factor alone.
bool CutLimits::is_distributed_along_another(NodeId id, size_t index) const {
  for (size_t f = 0; f < factors_[id].size(); ++f) {
    if (f != index && !factors_[id][f].distributed_op.empty() && parts_[id][f] > 1) return true;
  }
  return false;
}

bool CutLimits::may_pad_along(NodeId id, const Factor& factor) const {
  if (joint_.is_tie(id)) return true;
  const Node& node = graph_.nodes[id];
  const std::vector<Type> inputs = input_types(graph_, node);
  return may_pad({node.op, inputs, node.attrs, node.body.get()}, factor);
}

}  // namespace gangway
