#include "ir/transforms/propagation/residual_sharding.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/transforms/propagation/sum_terms.h"

namespace gangway {
namespace {

// A value of a body that its scans stack, and all that is the same tensor elsewhere: the stacks,
// and what the bodies that read them see of it.
struct Residual {
  ValueId kept = kNone;
  std::vector<NodeId> ties;
  std::vector<ValueId> values = {};  // Results of the ties.
};

class ResidualKeeper {
 public:
  ResidualKeeper(const JointGraph& joint, const PlacedValues& placed, Cuts& cuts)
      : joint_(joint),
        graph_(joint.graph()),
        placed_(placed),
        cuts_(cuts),
        makers_(producers(graph_)),
        readers_(readers(graph_)),
        root_of_(graph_.nodes.size(), kNone) {
    for (size_t i = 0; i < cuts.decisions.size(); ++i) {
      const ShardingDecision& decision = cuts.decisions[i];
      if (joint.is_tie(decision.node)) decided_.try_emplace({decision.node, decision.axis}, i);
    }
  }

  bool run() {
    bool changed = false;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (joint_.tie(id) == JointGraph::TieKind::kStackedResult && keep(id)) changed = true;
    }
    return changed;
  }

 private:
  bool keep(NodeId tie) {
    Residual residual{.kept = graph_.nodes[tie].inputs[0], .ties = {tie}};
    if (!find_ties(residual)) return false;
    bool changed = keep_gathered(residual);
    for (size_t axis = 0; axis < graph_.mesh.axes.size(); ++axis) {
      if (!is_read_as_sum(residual, axis)) continue;
      keep_sum(residual, axis);
      changed = true;
    }
    return changed;
  }

  bool keep_gathered(const Residual& residual) {
    const Sharding* read = depends_on_carry(residual.kept) ? read_by_both(residual) : nullptr;
    if (read == nullptr) return false;
    for (size_t axis = 0; axis < read->size(); ++axis) {
      if ((*read)[axis] != placed_.shardings[residual.kept][axis]) gather(residual, axis);
    }
    return true;
  }

  // Follows the stacks to the bodies that read them. False where a stack is not for them alone.
  bool find_ties(Residual& residual) {
    root_of_[residual.ties[0]] = residual.ties[0];
    for (size_t i = 0; i < residual.ties.size(); ++i) {
      const Node& tie = graph_.nodes[residual.ties[i]];
      for (uint32_t r = 0; r < tie.results; ++r) {
        const ValueId value = tie.first_result + r;
        residual.values.push_back(value);
        cuts_.steps += static_cast<int64_t>(readers_[value].size());
        for (const ValueReader& reader : readers_[value]) {
          if (!add_reader(residual, value, reader)) return false;
        }
      }
    }
    return std::ranges::all_of(residual.ties, [&](NodeId id) {
      return std::ranges::all_of(graph_.nodes[id].inputs, [&](ValueId input) {
        return input == residual.kept ||
               (makers_[input] != kNone && root_of_[makers_[input]] == residual.ties[0]);
      });
    });
  }

  // A tie that was reached from another stack takes that one's values too: neither has it alone.
  bool add_reader(Residual& residual, ValueId value, const ValueReader& reader) {
    if (reader.node == kNone) return false;
    if (!joint_.is_tie(reader.node))
      return graph_.types[value] == graph_.types[residual.kept];  // No stack.
    if (joint_.tie(reader.node) != JointGraph::TieKind::kStackedOperand) return false;
    NodeId& root = root_of_[reader.node];
    if (root == residual.ties[0]) return true;
    if (root != kNone) return false;
    root = residual.ties[0];
    residual.ties.push_back(reader.node);
    return true;
  }

  // Whether what the iteration before gave is among what a value of a body is computed from.
  bool depends_on_carry(ValueId value) {
    const auto [at, own] = joint_.seen(value);
    const auto [found, is_new] = depends_.try_emplace(at);
    std::vector<bool>& depends = found->second;
    if (is_new) {
      const JointGraph::Part& part = joint_.parts()[at];
      depends.assign(part.values.size(), false);
      for (size_t p = 0; p < part.operands.size(); ++p)
        depends[p] = joint_.tie(part.operands[p]) == JointGraph::TieKind::kCarry;
      for (const Node& node : part.function->nodes) {
        const bool any =
            std::ranges::any_of(node.inputs, [&](ValueId input) { return depends[input]; });
        std::fill_n(depends.begin() + node.first_result, node.results, any);
      }
    }
    return depends[own];
  }

  // The sharding in which a reader in the forward pass and one in the backward pass want it whole
  // along axes that cut it, while all others in the backward pass want it so too or can cut it.
  const Sharding* read_by_both(const Residual& residual) const {
    const Sharding& now = placed_.shardings[residual.kept];
    const Sharding* wanted = nullptr;
    for (ValueId value : residual.values) {
      for (const ValueReader& reader : readers_[value]) {
        if (joint_.is_tie(reader.node)) continue;
        const Sharding& one = placed_.required[reader.node][reader.operand];
        if (one == placed_.shardings[value]) continue;
        if (wanted != nullptr && one != *wanted) return nullptr;
        wanted = &one;
      }
    }
    if (wanted == nullptr || !is_gathered(now, *wanted)) return nullptr;
    const bool is_in_forward =
        std::ranges::any_of(readers_[residual.kept], [&](const ValueReader& r) {
          return r.node != kNone && !joint_.is_tie(r.node) &&
                 placed_.required[r.node][r.operand] == *wanted;
        });
    return is_in_forward ? wanted : nullptr;
  }

  // Gathers alone: what is cut otherwise on the other side goes over by an all-to-all.
  static bool is_gathered(const Sharding& from, const Sharding& to) {
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == to[axis]) continue;
      if (from[axis].kind != PlacementKind::kShard || to[axis] != replicate()) return false;
    }
    return true;
  }

  // The ties are no longer cut along the axis.
  void gather(const Residual& residual, size_t axis) {
    record(residual, axis);
    for (NodeId id : residual.ties) {
      NodeCut& cut = cuts_.nodes[id][axis];
      if (cut.factor >= 0)
        cuts_.parts[id][static_cast<size_t>(cut.factor)] /= graph_.mesh.axes[axis].size;
      cut = {.factor = NodeCut::kWhole, .order = 0, .from = residual.kept};
    }
    for (ValueId value : residual.values) cuts_.layouts[value][axis] = replicate();
  }

  // Records for each tie that was cut that its cut was rejected, with the traffic that the backward
  // pass would need.
  void record(const Residual& residual, size_t axis) {
    for (const NodeId id : residual.ties) {
      const auto at = decided_.find({id, static_cast<int>(axis)});
      if (at == decided_.end()) continue;
      ++cuts_.steps;
      ShardingDecision& decision = cuts_.decisions[at->second];
      decision.rejected.push_back(
          {.factor = decision.factor, .from = residual.kept, .cost = again(residual.kept, axis)});
      decision.factor = NodeCut::kWhole;
      decision.from = residual.kept;
      decision.cost = {};
    }
  }

  // Whether all readers in both passes take a sum as the devices' terms, and those in the backward
  // pass make no more of it than it is itself.
  bool is_read_as_sum(const Residual& residual, size_t axis) const {
    if (!is_partial(placed_.shardings[residual.kept][axis])) return false;
    for (const ValueReader& reader : readers_[residual.kept]) {
      if (!is_open(reader, axis)) return false;
      const bool is_stack = reader.node == residual.ties[0];
      if (!is_stack && !is_partial(placed_.required[reader.node][reader.operand][axis]))
        return false;
    }
    int64_t made = 0;
    for (ValueId value : residual.values) {
      NodeId before = kNone;  // One that reads a value twice is asked once.
      for (const ValueReader& reader : readers_[value]) {
        if (!is_open(reader, axis)) return false;
        if (joint_.is_tie(reader.node)) continue;
        const bool is_known = std::exchange(before, reader.node) == reader.node;
        if (!is_known && !passes_sums(graph_, reader.node, [&](ValueId input) {
              return input == value || kept_sums_.contains({input, axis}) ||
                     is_partial(placed_.shardings[input][axis]);
            }))
          return false;
        made += graph_.types[graph_.nodes[reader.node].first_result].bytes();
      }
    }
    return made > 0 && made <= graph_.types[residual.kept].bytes();
  }

  bool is_open(const ValueReader& reader, size_t axis) const {
    return reader.node != kNone && cuts_.nodes[reader.node][axis].factor == NodeCut::kOpen;
  }

  // The decision: what was rejected is an all-reduce, which moves twice what a gather does.
  void keep_sum(const Residual& residual, size_t axis) {
    for (NodeId id : residual.ties) cuts_.kept_sums.insert({id, axis});
    for (ValueId value : residual.values) kept_sums_.insert({value, axis});
    CutCost reduced = again(residual.kept, axis);
    reduced.bytes *= 2;
    cuts_.decisions.push_back(
        {.node = residual.ties[0],
         .axis = static_cast<int>(axis),
         .factor = NodeCut::kWhole,
         .from = residual.kept,
         .priority = 0,
         .cost = {},
         .rejected = {{.factor = NodeCut::kWhole, .from = residual.kept, .cost = reduced}}});
  }

  // Traffic of each device that makes the value whole along the axis again, in one iteration.
  CutCost again(ValueId value, size_t axis) const {
    auto bytes = static_cast<double>(graph_.types[value].bytes());
    for (size_t other = 0; other < graph_.mesh.axes.size(); ++other) {
      if (other != axis && placed_.shardings[value][other].kind == PlacementKind::kShard)
        bytes /= static_cast<double>(graph_.mesh.axes[other].size);
    }
    const auto n = static_cast<double>(graph_.mesh.axes[axis].size);
    return {.conversions = 1, .stored = 0, .bytes = bytes * (n - 1) / n};
  }

  const JointGraph& joint_;
  const Function& graph_;
  const PlacedValues& placed_;
  Cuts& cuts_;
  const std::vector<NodeId> makers_;                     // Indexed by value.
  const std::vector<std::vector<ValueReader>> readers_;  // Indexed by value.
  std::vector<NodeId> root_of_;  // Indexed by node: for a tie, the stack that it was reached from.
  // Indexed by tie and axis: index in the decisions.
  std::map<std::pair<NodeId, int>, size_t> decided_;
  // Indexed by part, then by value: whether it depends on a carry.
  std::map<size_t, std::vector<bool>> depends_;
  std::set<std::pair<ValueId, size_t>> kept_sums_;  // Values and axes.
};

}  // namespace

bool shard_residuals(const JointGraph& joint, const PlacedValues& placed, Cuts& cuts) {
  return ResidualKeeper(joint, placed, cuts).run();
}

}  // namespace gangway
