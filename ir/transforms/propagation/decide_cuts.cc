#include "ir/transforms/propagation/decide_cuts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

#include "ir/transforms/propagation/conflict_cost.h"
#include "ir/transforms/propagation/cut_limits.h"
#include "ir/transforms/propagation/sum_terms.h"
#include "ir/transforms/propagation/value_axes.h"

namespace gangway {
namespace {

struct Candidate {
  int factor = 0;
  int order = 0;
  ValueId from = kNone;
};

// The levels of op priority: 0 has the ops whose results lie as their operands do, 1 all others,
// and 2 the nodes that would sum.
constexpr int kLevels = 3;
int level_of(Op op) {
  const OpFamily family = row(op).family;
  return family == OpFamily::kElementwise || family == OpFamily::kShape ||
                 family == OpFamily::kControl
             ? 0
             : 1;
}

// The nodes that wait for a visit, on one level or several, each once a level.
class Waiting {
 public:
  explicit Waiting(size_t nodes) { levels_.fill({{}, std::vector<bool>(nodes, false)}); }

  void push(NodeId id, int level) {
    Level& at = levels_[static_cast<size_t>(level)];
    if (at.is_in[id]) return;
    at.is_in[id] = true;
    at.heap.push(id);
  }

  // Takes out the node of the smallest number up to this level; kNone: none waits.
  NodeId pop(int level_max) {
    Level* best = nullptr;
    for (int level = 0; level <= level_max; ++level) {
      Level& at = levels_[static_cast<size_t>(level)];
      if (best == nullptr || at.first() < best->first()) best = &at;
    }
    const NodeId id = best->first();
    if (id == kNone) return kNone;
    best->is_in[id] = false;
    best->heap.pop();
    return id;
  }

 private:
  struct Level {
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> heap;
    std::vector<bool> is_in;

    NodeId first() const { return heap.empty() ? kNone : heap.top(); }
  };

  std::array<Level, kLevels> levels_;
};

// The factor of an operand's or a result's dimension that is placed so; -1: there is none. `dims`:
// of all operands, or of all results.
int factor_of(const Factors& factors, std::vector<int> Factor::* dims, size_t at,
              const Placement& placed) {
  if (placed.kind != PlacementKind::kShard) return -1;
  const auto found = std::ranges::find_if(
      factors, [&](const Factor& factor) { return (factor.*dims)[at] == placed.dim; });
  return found == factors.end() ? -1 : static_cast<int>(found - factors.begin());
}

class CutDecider {
 public:
  CutDecider(const JointGraph& joint, const std::vector<Factors>& factors,
             const std::vector<Annotation>& annotations)
      : global_(joint.graph()),
        factors_(factors),
        annotations_(annotations),
        makers_(producers(global_)),
        axes_(global_.mesh.axes.size()),
        held_(global_.types.size(), axes_),
        stored_(global_.types.size(), axes_),
        readers_(global_.types.size()),
        waiting_(global_.nodes.size()),
        costs_(global_, factors, out_.layouts, stored_),
        limits_(joint, factors, out_.parts),
        terms_(joint, factors, out_.nodes) {
    out_.layouts.assign(global_.types.size(), replicated(global_.mesh));
    out_.reasons.assign(global_.types.size(), std::vector<ShardingReason>(axes_));
    out_.nodes.assign(global_.nodes.size(), std::vector<NodeCut>(axes_));
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      out_.parts.emplace_back(factors[id].size(), 1);
      for (ValueId input : global_.nodes[id].inputs) {
        if (readers_[input].empty() || readers_[input].back() != id) readers_[input].push_back(id);
      }
    }
    hold_annotated();
  }
  CutDecider(const CutDecider&) = delete;  // Its pieces refer to it.
  CutDecider& operator=(const CutDecider&) = delete;

  Cuts run() {
    for (size_t i = 0; i < annotations_.size();) {
      priority_ = annotations_[i].priority;
      for (; i < annotations_.size() && annotations_[i].priority == priority_; ++i)
        begin(annotations_[i]);
      for (level_ = 0; level_ < kLevels; ++level_) settle();
    }
    note_later_priorities();
    out_.steps += limits_.steps() + terms_.steps();
    return std::move(out_);
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }
  int64_t size(int axis) const { return global_.mesh.axes[at(axis)].size; }
  NodeCut& cut(NodeId id, int axis) { return out_.nodes[id][at(axis)]; }
  const Placement& layout(ValueId value, int axis) const { return out_.layouts[value][at(axis)]; }

  // Nothing but the user decides about parameters, and about the axes that a `constrain` names;
  // its cuts are kept free until its priority comes.
  void hold_annotated() {
    for (ValueId p = 0; p < global_.parameters.size(); ++p) {
      for (int axis = 0; axis < static_cast<int>(axes_); ++axis) held_.insert(p, axis);
    }
    for (const Annotation& annotation : annotations_) {
      if (annotation.node == kNone) continue;
      held_.insert(annotation.value, annotation.axis);
      cut(annotation.node, annotation.axis).factor = NodeCut::kWhole;
      const int factor =
          factor_of(factors_[annotation.node], &Factor::result_dims, 0, annotation.placement);
      if (factor >= 0) out_.parts[annotation.node][at(factor)] *= size(annotation.axis);
    }
  }

  void begin(const Annotation& annotation) {
    const auto& [value, node, axis, placement, priority] = annotation;
    if (placement.kind != PlacementKind::kShard) return;
    if (node == kNone) {
      const bool is_stored = priority != kResultPriority;  // Else it is of a result.
      place(value, axis, placement, {value, kNone}, {.by_user = is_stored, .stored = is_stored});
      return;
    }
    place(value, axis, placement, {value, node}, {.by_user = true});
    const int factor = factor_of(factors_[node], &Factor::result_dims, 0, placement);
    if (factor < 0) return;
    cut(node, axis) = {factor, placement.order, value};
    place(global_.nodes[node].inputs[0], axis, placement, {value, node}, {});
  }

  struct Origin {
    bool by_user = false;  // Held values are placed by nothing else.
    bool stored = false;   // It began at a parameter, not at a value inside.
  };

  // A value's layout on an axis where it is still open.
  void place(ValueId value, int axis, Placement placement, ShardingReason reason, Origin origin) {
    if (layout(value, axis).kind == PlacementKind::kShard) return;
    if (held_.contains(value, axis) && !origin.by_user) return;
    if (!origin.by_user && !fits(value, axis, placement.dim)) return;
    if (origin.stored) stored_.insert(value, axis);
    out_.layouts[value][at(axis)] = placement;
    out_.reasons[value][at(axis)] = reason;
    if (makers_[value] != kNone) wake(makers_[value]);
    for (NodeId reader : readers_[value]) wake(reader);
  }

  // There are rows for all parts; the last ones may have fewer than others.
  bool fits(ValueId value, int axis, int dim) const {
    return global_.types[value].dims[at(dim)] >= cuts_of(value, dim) * size(axis);
  }

  int64_t cuts_of(ValueId value, int dim) const {
    int64_t parts = 1;
    for (size_t other = 0; other < axes_; ++other) {
      const Placement& placed = out_.layouts[value][other];
      if (placed.kind == PlacementKind::kShard && placed.dim == dim)
        parts *= global_.mesh.axes[other].size;
    }
    return parts;
  }

  void wake(NodeId id) { waiting_.push(id, level_of(global_.nodes[id].op)); }

  // Basic until nothing moves, one conflict, basic again.
  void settle() {
    do {
      for (NodeId id = next(); id != kNone; id = next()) visit(id);
    } while (settle_first_conflict());
  }

  NodeId next() {
    const NodeId id = waiting_.pop(level_);
    if (id != kNone) ++out_.steps;
    return id;
  }

  void visit(NodeId id) {
    for (int axis = 0; axis < static_cast<int>(axes_); ++axis) {
      if (cut(id, axis).factor != NodeCut::kOpen || size(axis) == 1) continue;
      const std::vector<Candidate> wanted = candidates(id, axis);
      if (level_ + 1 < kLevels && would_sum(id, wanted)) {
        waiting_.push(id, kLevels - 1);
      } else if (wanted.size() == 1) {
        take(id, axis, wanted[0], {});
      } else if (wanted.size() > 1) {
        conflicts_.insert({id, axis});
      }
    }
  }

  bool would_sum(NodeId id, const std::vector<Candidate>& wanted) const {
    return std::ranges::any_of(wanted, [&](const Candidate& candidate) {
      return factors_[id][at(candidate.factor)].kind == FactorKind::kReduce;
    });
  }

  // The first node whose operands and results disagree takes the cheapest factor.
  bool settle_first_conflict() {
    while (!conflicts_.empty()) {
      const auto [id, axis] = *conflicts_.begin();
      conflicts_.erase(conflicts_.begin());
      if (cut(id, axis).factor != NodeCut::kOpen) continue;
      const std::vector<Candidate> wanted = candidates(id, axis);
      if (wanted.empty()) continue;
      std::vector<RejectedCut> rejected;
      size_t best = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        rejected.push_back(
            {wanted[i].factor, wanted[i].from, costs_.of(id, axis, wanted[i].factor)});
        if (is_cheaper(rejected[i].cost, rejected[best].cost)) best = i;
      }
      rejected.erase(rejected.begin() + static_cast<std::ptrdiff_t>(best));
      take(id, axis, wanted[best], std::move(rejected));
      return true;
    }
    return false;
  }

  void take(NodeId id, int axis, const Candidate& winner, std::vector<RejectedCut> rejected) {
    const Node& node = global_.nodes[id];
    const Factor& factor = factors_[id][at(winner.factor)];
    out_.decisions.push_back({id, axis, winner.factor, winner.from, priority_,
                              costs_.of(id, axis, winner.factor), std::move(rejected)});
    cut(id, axis) = {winner.factor, winner.order, winner.from};
    out_.parts[id][at(winner.factor)] *= size(axis);
    const ShardingReason reason{winner.from, id};
    const Origin origin{.stored = stored_.contains(winner.from, axis)};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (factor.input_dims[i] >= 0)
        place(node.inputs[i], axis, shard(factor.input_dims[i], winner.order), reason, origin);
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      if (factor.result_dims[r] >= 0)
        place(node.first_result + r, axis, shard(factor.result_dims[r], winner.order), reason,
              origin);
    }
  }

  // The factors that operands and results ask for, in the order of the first that asks.
  std::vector<Candidate> candidates(NodeId id, int axis) {
    std::vector<Candidate> wanted;
    if (terms_.adds_only_terms(id, axis)) return wanted;
    const auto ask = [&](ValueId value, int factor, const Placement& placed) {
      if (factor < 0) return;
      for (const Candidate& candidate : wanted) {
        if (candidate.factor == factor) return;
      }
      if (limits_.can_cut(id, factor, axis, cuts_of(value, placed.dim)))
        wanted.push_back({factor, placed.order, value});
    };
    const Node& node = global_.nodes[id];
    out_.steps += static_cast<int64_t>(node.inputs.size() + node.results);
    const auto in_place = static_cast<size_t>(row(node.op).in_place);
    const size_t deciding = in_place > 0 ? in_place : node.inputs.size();
    for (size_t i = 0; i < deciding; ++i) {
      const Placement& placed = layout(node.inputs[i], axis);
      ask(node.inputs[i], factor_of(factors_[id], &Factor::input_dims, i, placed), placed);
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      const Placement& placed = layout(node.first_result + r, axis);
      ask(node.first_result + r, factor_of(factors_[id], &Factor::result_dims, r, placed), placed);
    }
    return wanted;
  }

  // Layouts that came when the node was decided already.
  void note_later_priorities() {
    for (ShardingDecision& decision : out_.decisions) {
      const auto is_known = [&](int factor) {
        if (factor == decision.factor) return true;
        return std::ranges::any_of(decision.rejected, [&](const RejectedCut& rejected) {
          return rejected.factor == factor;
        });
      };
      for (const Candidate& late : candidates(decision.node, decision.axis)) {
        if (is_known(late.factor)) continue;
        decision.rejected.push_back(
            {late.factor, late.from, costs_.of(decision.node, decision.axis, late.factor), true});
      }
    }
  }

  const Function& global_;
  const std::vector<Factors>& factors_;
  const std::vector<Annotation>& annotations_;
  const std::vector<NodeId> makers_;
  const size_t axes_;
  Cuts out_;
  ValueAxes held_;                            // Only the user places these.
  ValueAxes stored_;                          // The layouts that began at a parameter.
  std::vector<std::vector<NodeId>> readers_;  // Indexed by value.
  Waiting waiting_;
  std::set<std::pair<NodeId, int>> conflicts_;  // Node and axis.
  const ConflictCost costs_;
  CutLimits limits_;
  SumTerms terms_;
  int priority_ = 0;
  int level_ = 0;
};

}  // namespace

Cuts decide_cuts(const JointGraph& joint, const std::vector<Factors>& factors,
                 const std::vector<Annotation>& annotations) {
  return CutDecider(joint, factors, annotations).run();
}

}  // namespace gangway
