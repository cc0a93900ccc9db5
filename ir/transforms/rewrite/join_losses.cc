#include "ir/transforms/rewrite/join_losses.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

bool keeps_its_place(const Node& node) { return stays_in_place(node.op) || node.body != nullptr; }

class LossJoiner {
 public:
  explicit LossJoiner(const Function& local)
      : local_(local),
        makers_(producers(local)),
        is_done_(local.nodes.size(), false),
        out_(local) {}

  Function run() {
    find_pairs();
    drop_those_that_must_stay();
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      if (!take(id)) continue;
      const auto pair = grads_.find(id);
      if (pair != grads_.end()) {
        join(id, pair->second);
      } else {
        out_.copy(id);
      }
    }
    return out_.finish();
  }

 private:
  void find_pairs() {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Node& grad = local_.nodes[id];
      if (grad.op != Op::cross_entropy_grad || makers_[grad.inputs[2]] == kNone) continue;
      const NodeId maker = makers_[grad.inputs[2]];
      const Node& loss = local_.nodes[maker];
      const bool is_its_own = loss.op == Op::cross_entropy &&
                              grad.inputs[2] == loss.first_result + 1 &&
                              grad.inputs[0] == loss.inputs[0] && grad.inputs[1] == loss.inputs[1];
      if (is_its_own) grads_.emplace(maker, id);
    }
  }

  void drop_those_that_must_stay() {
    // For each value: whether it depends on one of these losses, and the first position at which it
    // may be computed: behind the last node it depends on that keeps its place.
    std::vector<bool> follows(local_.types.size(), false);
    std::vector<NodeId> earliest(local_.types.size(), 0);
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Node& node = local_.nodes[id];
      bool any = grads_.contains(id);
      NodeId from = keeps_its_place(node) ? id + 1 : 0;
      for (const ValueId input : node.inputs) {
        any = any || follows[input];
        from = std::max(from, earliest[input]);
      }
      for (uint32_t r = 0; r < node.results; ++r) {
        follows[node.first_result + r] = any;
        earliest[node.first_result + r] = from;
      }
    }
    std::erase_if(grads_, [&](const auto& pair) {
      const ValueId dloss = local_.nodes[pair.second].inputs[3];
      return follows[dloss] || earliest[dloss] > pair.first;
    });
  }

  void join(NodeId of_loss, NodeId of_grad) {
    const Node &loss = local_.nodes[of_loss], &grad = local_.nodes[of_grad];
    compute(grad.inputs[3]);
    Node node{
        .op = Op::cross_entropy_and_grad,
        .inputs = {out_.at(loss.inputs[0]), out_.at(loss.inputs[1]), out_.at(grad.inputs[3])}};
    const auto type_of = [&](ValueId value) { return local_.types[value]; };
    const ValueId first = out_.append(
        std::move(node),
        {type_of(loss.first_result), type_of(loss.first_result + 1), type_of(grad.first_result)},
        local_.infos[of_loss]);
    out_.set(loss.first_result, first);
    out_.set(loss.first_result + 1, first + 1);
    out_.set(grad.first_result, first + 2);
    is_done_[of_grad] = true;
  }

  // Whether the node was still to come, which it is no longer.
  bool take(NodeId id) {
    const bool is_new = !is_done_[id];
    is_done_[id] = true;
    return is_new;
  }

  // With all that it depends on, in their order.
  void compute(ValueId value) {
    std::vector<NodeId> missing;
    std::vector<ValueId> left = {value};
    while (!left.empty()) {
      const NodeId maker = makers_[left.back()];
      left.pop_back();
      if (maker == kNone || !take(maker)) continue;
      missing.push_back(maker);
      const std::vector<ValueId>& inputs = local_.nodes[maker].inputs;
      left.insert(left.end(), inputs.begin(), inputs.end());
    }
    std::sort(missing.begin(), missing.end());
    for (const NodeId id : missing) out_.copy(id);
  }

  const Function& local_;
  const std::vector<NodeId> makers_;
  std::map<NodeId, NodeId> grads_;  // Indexed by cross_entropy: its gradient.
  std::vector<bool> is_done_;       // Indexed by node: it is in the new function, or is joined.
  Rewriter out_;
};

}  // namespace

Function join_losses(const Function& local) { return LossJoiner(local).run(); }

}  // namespace gangway
