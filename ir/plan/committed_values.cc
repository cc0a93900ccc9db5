#include "ir/plan/committed_values.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "ir/types/reduction.h"

namespace gangway {
namespace {

// Gradients. A value *tells* of a gradient if it is not finite whenever the gradient is not.
using Told = std::set<ValueId>;

// For each value of the nodes before `end`, the gradients that it tells of.
class Telling {
 public:
  explicit Telling(const Told& gradients) : gradients_(gradients) {}

  std::vector<Told> run(const Function& function, NodeId end) const {
    return follow(function, end, {}, gradients_);
  }

 private:
  // `gradients`: the first values that tell are their sums of squares; none in the body of a chain.
  std::vector<Told> follow(const Function& function, NodeId end, std::vector<Told> by_value,
                           const Told& gradients) const {
    by_value.resize(function.types.size());
    for (NodeId id = 0; id < end; ++id) {
      const Node& node = function.nodes[id];
      Told& first = by_value[node.first_result];
      if (node.op == Op::sum_squares) {
        if (gradients.contains(node.inputs[0])) first.insert(node.inputs[0]);
      } else if (node.op == Op::fusion) {
        follow_chain(node, by_value);
      } else if (node.op == Op::all_reduce) {
        if (node.attrs.text("reduction") != to_string(Reduction::kSum)) continue;
        for (uint32_t r = 0; r < node.results; ++r)
          by_value[node.first_result + r] = by_value[node.inputs[r]];
      } else if (is_float(function.types[node.first_result].dtype)) {
        for (size_t i = 0; i < passing_operands(node); ++i)
          first.insert(by_value[node.inputs[i]].begin(), by_value[node.inputs[i]].end());
      }
    }
    return by_value;
  }

  // A device may have put more into the node than its chain, such as the product before it, with
  // operands and results of its own (executor/devices/cuda/lower): that tells nothing.
  void follow_chain(const Node& node, std::vector<Told>& by_value) const {
    if (node.body == nullptr || node.body->parameters.size() != node.inputs.size() ||
        node.body->results.size() != node.results)
      return;
    const Function& chain = *node.body;
    std::vector<Told> inside;
    for (const ValueId input : node.inputs) inside.push_back(by_value[input]);
    inside = follow(chain, static_cast<NodeId>(chain.nodes.size()), std::move(inside), {});
    for (uint32_t r = 0; r < node.results; ++r)
      by_value[node.first_result + r] = inside[chain.results[r]];
  }

  // How many operands, from the first on, have no infinity or NaN that the result hides.
  static size_t passing_operands(const Node& node) {
    constexpr Op kAll[] = {Op::neg,     Op::abs,       Op::sqrt,    Op::log,
                           Op::add,     Op::sub,       Op::mul,     Op::convert,
                           Op::reshape, Op::broadcast, Op::barrier, Op::reduce_sum};
    if (std::ranges::find(kAll, node.op) != std::end(kAll)) return node.inputs.size();
    return node.op == Op::div ? 1 : 0;
  }

  const Told& gradients_;
};

}  // namespace

std::vector<ValueId> committed_values(const LocalFunction& local) {
  const Function& function = *local.function;
  std::set<ValueId> values;
  Told gradients;
  for (NodeId id = local.commit_begin; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    // The gradient follows the operands that are written in place.
    const auto in_place = static_cast<size_t>(row(node.op).in_place);
    for (size_t i = in_place; i < node.inputs.size(); ++i) {
      if (!is_float(function.types[node.inputs[i]].dtype)) continue;
      const bool is_gradient = in_place > 0 && i == in_place;
      (is_gradient ? gradients : values).insert(node.inputs[i]);
    }
  }
  const std::vector<Told> told = Telling(gradients).run(function, local.commit_begin);
  const std::set<ValueId> looked_at = values;
  values.insert(gradients.begin(), gradients.end());
  const auto leave_out = [&](ValueId value) {
    for (const ValueId gradient : told[value]) {
      if (!looked_at.contains(gradient)) values.erase(gradient);
    }
  };
  for (const ValueId value : looked_at) leave_out(value);
  if (local.finite_result != kNone) leave_out(function.results[local.finite_result]);
  return {values.begin(), values.end()};
}

}  // namespace gangway
