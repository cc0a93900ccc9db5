#include "ir/transforms/propagation/decide_cuts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "ir/op_table/lowering.h"
#include "ir/transforms/propagation/place_values.h"
#include "ir/transforms/propagation/sum_carries.h"

namespace gangway {
namespace {

struct Candidate {
  int factor = 0;
  int order = 0;
  ValueId from = kNone;
};

// 0: ops whose results lie as their operands do. 1: all others, and 2: those that would sum.
constexpr int kLevels = 3;
int level_of(Op op) {
  const OpFamily family = row(op).family;
  return family == OpFamily::kElementwise || family == OpFamily::kShape ||
                 family == OpFamily::kControl
             ? 0
             : 1;
}

// The node numbers that wait for a visit, the smallest first, each once.
class Waiting {
 public:
  explicit Waiting(size_t nodes) : is_in_(nodes, false) {}
  void push(NodeId id) {
    if (is_in_[id]) return;
    is_in_[id] = true;
    heap_.push(id);
  }
  NodeId first() const { return heap_.empty() ? kNone : heap_.top(); }
  void pop() {
    is_in_[heap_.top()] = false;
    heap_.pop();
  }

 private:
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> heap_;
  std::vector<bool> is_in_;
};

class CutDecider {
 public:
  CutDecider(const JointGraph& joint, const std::vector<Factors>& factors,
             const std::vector<Annotation>& annotations)
      : joint_(joint),
        global_(joint.graph()),
        factors_(factors),
        annotations_(annotations),
        makers_(producers(global_)),
        sums_(sum_carries(joint)),
        axes_(global_.mesh.axes.size()),
        waiting_(kLevels, Waiting(global_.nodes.size())) {
    out_.layouts.assign(global_.types.size(), replicated(global_.mesh));
    out_.reasons.assign(global_.types.size(), std::vector<ShardingReason>(axes_));
    out_.nodes.assign(global_.nodes.size(), std::vector<NodeCut>(axes_));
    is_held_.assign(global_.types.size() * axes_, false);
    is_stored_ = is_held_;
    readers_.resize(global_.types.size());
    is_read_twice_.assign(global_.types.size(), false);
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      out_.parts.emplace_back(factors[id].size(), 1);
      for (ValueId input : global_.nodes[id].inputs) {
        if (readers_[input].empty() || readers_[input].back() != id) {
          readers_[input].push_back(id);
        } else {
          is_read_twice_[input] = true;
        }
      }
    }
    hold_annotated();
  }

  Cuts run() {
    for (size_t i = 0; i < annotations_.size();) {
      priority_ = annotations_[i].priority;
      for (; i < annotations_.size() && annotations_[i].priority == priority_; ++i)
        begin(annotations_[i]);
      for (level_ = 0; level_ < kLevels; ++level_) settle();
    }
    note_later_priorities();
    return std::move(out_);
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }
  int64_t size(int axis) const { return global_.mesh.axes[at(axis)].size; }
  NodeCut& cut(NodeId id, int axis) { return out_.nodes[id][at(axis)]; }
  const Placement& layout(ValueId value, int axis) const { return out_.layouts[value][at(axis)]; }
  bool is_held(ValueId value, int axis) const { return is_held_[value * axes_ + at(axis)]; }
  void hold(ValueId value, int axis) { is_held_[value * axes_ + at(axis)] = true; }

  // Nothing but the user decides about parameters, and about the axes that a `constrain` names;
  // its cuts are kept free until its priority comes.
  void hold_annotated() {
    for (ValueId p = 0; p < global_.parameters.size(); ++p) {
      for (int axis = 0; axis < static_cast<int>(axes_); ++axis) hold(p, axis);
    }
    for (const Annotation& annotation : annotations_) {
      if (annotation.node == kNone) continue;
      hold(annotation.value, annotation.axis);
      cut(annotation.node, annotation.axis).factor = NodeCut::kWhole;
      const int factor = factor_of_result(annotation.node, 0, annotation.placement);
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
    const int factor = factor_of_result(node, 0, placement);
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
    if (is_held(value, axis) && !origin.by_user) return;
    if (!origin.by_user && !fits(value, axis, placement.dim)) return;
    is_stored_[value * axes_ + at(axis)] = origin.stored;
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

  void wake(NodeId id) { waiting_[at(level_of(global_.nodes[id].op))].push(id); }

  // Basic until nothing moves, one conflict, basic again.
  void settle() {
    do {
      for (NodeId id = next(); id != kNone; id = next()) visit(id);
    } while (settle_first_conflict());
  }

  NodeId next() {
    Waiting* best = nullptr;
    for (int level = 0; level <= level_; ++level) {
      Waiting& waiting = waiting_[at(level)];
      if (best == nullptr || waiting.first() < best->first()) best = &waiting;
    }
    const NodeId id = best->first();
    if (id == kNone) return kNone;
    best->pop();
    ++out_.steps;
    return id;
  }

  void visit(NodeId id) {
    for (int axis = 0; axis < static_cast<int>(axes_); ++axis) {
      if (cut(id, axis).factor != NodeCut::kOpen || size(axis) == 1) continue;
      const std::vector<Candidate> wanted = candidates(id, axis);
      if (level_ + 1 < kLevels && would_sum(id, wanted)) {
        waiting_.back().push(id);
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
        rejected.push_back({wanted[i].factor, wanted[i].from, cost_of(id, axis, wanted[i].factor)});
        if (is_cheaper(rejected[i].cost, rejected[best].cost)) best = i;
      }
      rejected.erase(rejected.begin() + static_cast<std::ptrdiff_t>(best));
      take(id, axis, wanted[best], std::move(rejected));
      return true;
    }
    return false;
  }

  static bool is_cheaper(const CutCost& a, const CutCost& b) {
    return std::tie(a.conversions, a.stored, a.bytes) < std::tie(b.conversions, b.stored, b.bytes);
  }

  void take(NodeId id, int axis, const Candidate& winner, std::vector<RejectedCut> rejected) {
    const Node& node = global_.nodes[id];
    const Factor& factor = factors_[id][at(winner.factor)];
    out_.decisions.push_back({id, axis, winner.factor, winner.from, priority_,
                              cost_of(id, axis, winner.factor), std::move(rejected)});
    cut(id, axis) = {winner.factor, winner.order, winner.from};
    out_.parts[id][at(winner.factor)] *= size(axis);
    const ShardingReason reason{winner.from, id};
    const Origin origin{.stored = is_stored_[winner.from * axes_ + at(axis)]};
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
    if (adds_terms(id, axis)) return wanted;
    const auto ask = [&](ValueId value, int factor, const Placement& placed) {
      if (factor < 0) return;
      for (const Candidate& candidate : wanted) {
        if (candidate.factor == factor) return;
      }
      if (can_cut(id, factor, axis, cuts_of(value, placed.dim)))
        wanted.push_back({factor, placed.order, value});
    };
    const Node& node = global_.nodes[id];
    out_.steps += static_cast<int64_t>(node.inputs.size() + node.results);
    const auto in_place = static_cast<size_t>(row(node.op).in_place);
    const size_t deciding = in_place > 0 ? in_place : node.inputs.size();
    for (size_t i = 0; i < deciding; ++i) {
      const Placement& placed = layout(node.inputs[i], axis);
      ask(node.inputs[i], factor_of_input(id, i, placed), placed);
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      const Placement& placed = layout(node.first_result + r, axis);
      ask(node.first_result + r, factor_of_result(id, r, placed), placed);
    }
    return wanted;
  }

  // For each value: whether its producer gives an unreduced sum, as far as is decided.
  using Terms = std::map<ValueId, bool>;

  // A carry to which iterations add terms of sums that are not done along the axis: however readers
  // want it cut, it stays partial and is reduced once, behind the loop.
  bool adds_terms(NodeId id, int axis) {
    const auto terms = sums_.terms.find(id);
    if (terms == sums_.terms.end()) return false;
    Terms known;
    return std::ranges::all_of(terms->second,
                               [&](ValueId term) { return is_term(term, axis, known); });
  }

  // Chains of values are as long as a user's function: those that are still to be decided stand in
  // a list, each behind the one that waits for it.
  bool is_term(ValueId value, int axis, Terms& known) {
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId at = open.back();
      ++out_.steps;
      bool waits = false;
      if (known.try_emplace(at, false).second) {
        for (const ValueId behind : terms_behind(at, axis)) {
          if (known.contains(behind)) continue;
          open.push_back(behind);
          waits = true;
        }
      }
      if (waits) continue;
      open.pop_back();
      known[at] = gives_term(at, axis, known);
    }
    return known[value];
  }

  // Whether one operand of one node is the value's only reader.
  bool is_read_once(ValueId value) const {
    return readers_[value].size() == 1 && !is_read_twice_[value];
  }

  // The values that decide whether this is a term; none where that is known without them.
  std::vector<ValueId> terms_behind(ValueId value, int axis) const {
    const NodeId id = makers_[value];
    if (id == kNone || !is_read_once(value) || out_.nodes[id][at(axis)].factor != NodeCut::kOpen)
      return {};
    const Node& node = global_.nodes[id];
    if (joint_.tie(id) == JointGraph::TieKind::kCarry) {
      const auto terms = sums_.terms.find(id);
      return terms == sums_.terms.end() ? std::vector<ValueId>() : terms->second;
    }
    if (joint_.is_tie(id))
      return sums_.ties[id] ? std::vector{node.inputs[0]} : std::vector<ValueId>();
    return row(node.op).linear == Linear::kNo ? std::vector<ValueId>() : node.inputs;
  }

  bool gives_term(ValueId value, int axis, const Terms& known) const {
    const NodeId id = makers_[value];
    if (id == kNone || !is_read_once(value)) return false;
    const Node& node = global_.nodes[id];
    const int index = out_.nodes[id][at(axis)].factor;
    if (index == NodeCut::kWhole) return false;
    if (index >= 0) {
      const Factor& factor = factors_[id][at(index)];
      return factor.kind == FactorKind::kReduce &&
             factor.result_dims[value - node.first_result] < 0;
    }
    const std::vector<ValueId> behind = terms_behind(value, axis);
    const auto is_term = [&](ValueId term) { return known.at(term); };
    if (behind.empty()) return false;
    return joint_.is_tie(id) ? std::ranges::all_of(behind, is_term)
                             : passes_sums(global_, id, is_term);
  }

  // Into unequal parts only as the tensor that asks is cut itself (in `asked` parts): axes of
  // different tensors that meet in this node do not make them.
  bool can_cut(NodeId id, int index, int axis, int64_t asked) {
    const Factor& factor = factors_[id][at(index)];
    const int64_t parts = size(axis) * out_.parts[id][at(index)];
    if (factor.kind == FactorKind::kWhole || factor.size < parts) return false;
    if (!factor.lowering.empty() && is_lowered_along_another(id, index)) return false;
    if (!divides_with_others(id, index, parts)) return false;
    return factor.size % parts == 0 || (asked % parts == 0 && may_pad_along(id, factor));
  }

  // If a factor with a lowering shares a dimension with another factor, parts must be equal.
  bool divides_with_others(NodeId id, int index, int64_t parts) {
    const Node& node = global_.nodes[id];
    const Factor& factor = factors_[id][at(index)];
    const auto divides = [&](int64_t all, int a, int b, ValueId value) {
      return a < 0 || a != b || global_.types[value].dims[at(a)] % all == 0;
    };
    for (size_t f = 0; f < factors_[id].size(); ++f) {
      const Factor& other = factors_[id][f];
      const int64_t all = parts * out_.parts[id][f];
      if (f == at(index) || all == parts) continue;
      if (factor.lowering.empty() && other.lowering.empty()) continue;
      out_.steps += static_cast<int64_t>(node.inputs.size() + node.results);
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

  // A lowering knows of its own factor alone.
  bool is_lowered_along_another(NodeId id, int index) const {
    for (size_t f = 0; f < factors_[id].size(); ++f) {
      if (f != at(index) && !factors_[id][f].lowering.empty() && out_.parts[id][f] > 1) return true;
    }
    return false;
  }

  bool may_pad_along(NodeId id, const Factor& factor) const {
    if (joint_.is_tie(id)) return true;
    const Node& node = global_.nodes[id];
    const std::vector<Type> inputs = input_types(global_, node);
    return may_pad({node.op, inputs, node.attrs, node.body.get()}, factor);
  }

  // -1: what is placed so has no such factor here.
  int factor_of_input(NodeId id, size_t input, const Placement& placed) const {
    if (placed.kind != PlacementKind::kShard) return -1;
    for (size_t f = 0; f < factors_[id].size(); ++f) {
      if (factors_[id][f].input_dims[input] == placed.dim) return static_cast<int>(f);
    }
    return -1;
  }
  int factor_of_result(NodeId id, uint32_t result, const Placement& placed) const {
    if (placed.kind != PlacementKind::kShard) return -1;
    for (size_t f = 0; f < factors_[id].size(); ++f) {
      if (factors_[id][f].result_dims[result] == placed.dim) return static_cast<int>(f);
    }
    return -1;
  }

  // The traffic that cutting the node on the factor causes, as far as layouts are known: an operand
  // that is cut elsewhere is gathered or re-cut; so is a result, or the terms of its sum are
  // scattered. Traffic of a lowering counts as one conversion.
  CutCost cost_of(NodeId id, int axis, int index) const {
    const Node& node = global_.nodes[id];
    const Factor& factor = factors_[id][at(index)];
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
    if (!factor.lowering.empty()) {
      const std::vector<Type> inputs = input_types(global_, node);
      const OpCall call{node.op, inputs, node.attrs, node.body.get()};
      const double sent = lowering_of(node.op, factor.lowering).sent_bytes(call, size(axis));
      cost.conversions += sent > 0 ? 1 : 0;
      cost.bytes += sent;
    }
    return cost;
  }

  // All but one share of the tensor's part over the other axes comes from other devices; if it is
  // cut anew, each device wants only its share of that.
  void add(CutCost& cost, ValueId value, int axis, bool cut_anew) const {
    auto bytes = static_cast<double>(global_.types[value].bytes());
    for (int other = 0; other < static_cast<int>(axes_); ++other) {
      if (other != axis && layout(value, other).kind == PlacementKind::kShard)
        bytes /= static_cast<double>(size(other));
    }
    const auto n = static_cast<double>(size(axis));
    cost.conversions += 1;
    cost.stored += is_stored_[value * axes_ + at(axis)] ? 1 : 0;
    cost.bytes += bytes * (n - 1) / n / (cut_anew ? n : 1);
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
            {late.factor, late.from, cost_of(decision.node, decision.axis, late.factor), true});
      }
    }
  }

  const JointGraph& joint_;
  const Function& global_;
  const std::vector<Factors>& factors_;
  const std::vector<Annotation>& annotations_;
  const std::vector<NodeId> makers_;
  const SumCarries sums_;
  const size_t axes_;
  Cuts out_;
  std::vector<bool> is_held_, is_stored_;     // Indexed by value and axis.
  std::vector<std::vector<NodeId>> readers_;  // Indexed by value.
  std::vector<bool> is_read_twice_;           // Indexed by value: two operands of one node read it.
  std::vector<Waiting> waiting_;              // Indexed by level.
  std::set<std::pair<NodeId, int>> conflicts_;  // Node and axis.
  int priority_ = 0;
  int level_ = 0;
};

}  // namespace

Cuts decide_cuts(const JointGraph& joint, const std::vector<Factors>& factors,
                 const std::vector<Annotation>& annotations) {
  return CutDecider(joint, factors, annotations).run();
}

}  // namespace gangway
