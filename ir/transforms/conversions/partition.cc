#include "ir/transforms/conversions/partition.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/op_table/distributed_op.h"
#include "ir/transforms/conversions/distribute_node.h"
#include "ir/transforms/conversions/expert_rows.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Limits for one value: how many of its readers' shardings are considered as a first conversion for
// the others, and from how many of its shardings a conversion may begin.
constexpr size_t kWantedMax = 8, kBegunFromMax = 16;

// A weight is gathered for each pass separately: if gathered weights were kept from the forward
// into the backward pass, all of them would lie whole in memory at once.
enum class Pass : uint8_t { kBoth, kForward, kBackward };

Pass pass_of(const NodeInfo& info) {
  const bool is_backward =
      info.reason == Reason::kGradient || info.reason == Reason::kRematerialize;
  return is_backward ? Pass::kBackward : Pass::kForward;
}

// Whether each value is a parameter, or a conversion, transpose or constraint of one.
std::vector<bool> weights(const Function& global) {
  std::vector<bool> is_weight(global.types.size(), false);
  for (ValueId p = 0; p < global.parameters.size(); ++p) is_weight[p] = true;
  for (const Node& node : global.nodes) {
    if (node.op == Op::convert || node.op == Op::transpose || node.op == Op::constrain)
      is_weight[node.first_result] = is_weight[node.inputs[0]];
  }
  return is_weight;
}

struct LocalBody {
  std::shared_ptr<const Function> function;  // Null: not yet.
  RowsOfResults rows;
};

// State that a function and its bodies share.
struct Shared {
  const Propagation& propagation;
  ConversionPlanner planner;
  // Keyed by index in Propagation::bodies, and by what else loops pass to it.
  std::map<std::pair<size_t, std::vector<RowsGiven>>, LocalBody> bodies = {};
  uint64_t looked_at = 0;
  std::vector<ConversionRecord>* records = nullptr;  // Null: nobody asked for them.
};

// One function, or one body.
class Partitioner {
 public:
  // `body`: null for the function itself. `given`: what loops also pass to the body.
  Partitioner(const Function& global, const FunctionShardings& placed, Shared& shared,
              const Function* body = nullptr, const std::vector<RowsGiven>& given = {})
      : global_(global),
        body_(body),
        placed_(placed),
        shared_(shared),
        out_(global),
        rows_(out_),
        producers_(producers(global)),
        planner_(shared.planner),
        is_weight_(weights(global)),
        made_(global.types.size()),
        wanted_(global.types.size()) {
    out_.target().local = true;
    for (ValueId p = 0; p < global.parameters.size(); ++p) {
      out_.target().types[p] = local(p, placed.shardings[p]);
      keep(p, placed.shardings[p], p);
    }
    rows_.take(given);
  }

  Partitioned run(const std::vector<Sharding>& wanted) {
    Partitioned done;
    for (size_t r = 0; r < global_.results.size(); ++r) {
      const ValueId value = global_.results[r];
      done.result_shardings.push_back(r < wanted.size() && !wanted[r].empty() ? wanted[r]
                                                                              : settled(value));
      want(value, done.result_shardings[r]);
    }
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      for (size_t i = 0; i < global_.nodes[id].inputs.size(); ++i)
        want(global_.nodes[id].inputs[i], placed_.required[id][i]);
    }
    for (NodeId id = 0; id < global_.nodes.size(); ++id) visit(id);
    reader_ = kNone;
    std::vector<ValueId> results;
    for (size_t r = 0; r < global_.results.size(); ++r)
      results.push_back(converted(global_.results[r], done.result_shardings[r]));
    done.function = std::move(out_.target());
    done.function.results = std::move(results);
    shared_.looked_at += looked_at_;
    return done;
  }

 private:
  // A value of the global function as it lies under one sharding.
  struct Made {
    Sharding sharding;  // Canonical.
    ValueId local = kNone;
    Pass pass = Pass::kBoth;  // The pass that has it.
  };

  const LocalBody& local_body(NodeId id, const std::vector<RowsGiven>& given) {
    const size_t at = placed_.body_of.at(id);
    LocalBody& made = shared_.bodies[{at, given}];
    if (made.function == nullptr) {
      const FunctionShardings& placed = shared_.propagation.bodies[at];
      const Function& function = *global_.nodes[id].body;
      Partitioner body(function, placed, shared_, &function, given);
      Function part = body.run(placed.results).function;
      made.rows = body.rows_.show(part);
      made.function = std::make_shared<const Function>(std::move(part));
    }
    return made;
  }

  Type local(ValueId value, const Sharding& sharding) const {
    auto type = local_type(global_.types[value], global_.mesh, sharding);
    GW_ASSERT(type.has_value(), "value %", value, " ", to_string(global_.types[value]),
              " can't be cut as ", to_string(global_.mesh, sharding));
    return *type;
  }

  void want(ValueId value, const Sharding& sharding) {
    const Sharding spelling = canonical(global_.mesh, sharding);
    std::vector<Sharding>& all = wanted_[value];
    if (all.size() == kWantedMax) return;
    looked_at_ += 1 + all.size();
    if (std::ranges::count(all, spelling) == 0) all.push_back(spelling);
  }

  void keep(ValueId value, Sharding sharding, ValueId local) {
    const bool is_own = made_[value].empty();
    made_[value].push_back({canonical(global_.mesh, std::move(sharding)), local,
                            is_own || !is_weight_[value] ? Pass::kBoth : pass_});
  }

  bool is_of_this_pass(const Made& made) const {
    return made.pass == Pass::kBoth || made.pass == pass_;
  }

  std::optional<ValueId> found(ValueId value, const Sharding& canonical_sharding) {
    for (const Made& made : made_[value]) {
      ++looked_at_;
      if (made.sharding == canonical_sharding && is_of_this_pass(made)) return made.local;
    }
    return std::nullopt;
  }

  // The propagated sharding, but replicated along axes where it is partial or cuts unequal parts.
  Sharding settled(ValueId value) const {
    Sharding sharding = placed_.shardings[value];
    for (Placement& placement : sharding) {
      if (placement.kind == PlacementKind::kPartial) placement = replicate();
    }
    // Results of functions have no padding.
    for (Placement& placement : sharding) {
      if (placement.kind != PlacementKind::kShard) continue;
      Sharding of_dim = sharding;
      for (Placement& other : of_dim) {
        if (other.dim != placement.dim) other = replicate();
      }
      if (!cuts_evenly(global_.types[value], global_.mesh, of_dim)) placement = replicate();
    }
    return sharding;
  }

  void visit(NodeId id) {
    const Node& old = global_.nodes[id];
    pass_ = pass_of(global_.infos[id]);
    loc_ = global_.infos[id].loc;
    reader_ = id;
    Node node = old;
    std::vector<Type> global_inputs, inputs;
    global_inputs.reserve(node.inputs.size());
    inputs.reserve(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      global_inputs.push_back(global_.types[old.inputs[i]]);
      node.inputs[i] = converted(old.inputs[i], placed_.required[id][i]);
      inputs.push_back(out_.target().types[node.inputs[i]]);
    }
    const OpCall call{old.op, global_inputs, old.attrs, old.body.get()};
    const Factors factors = row(old.op).factors(call);
    looked_at_ += 1 + old.inputs.size();
    if (shares_body(old.op)) return run_body(id, std::move(node));
    node.attrs = local_attrs(call, factors, placed_.parts[id]);
    if (old.results > 0) say_cuts(call, old.first_result, node.attrs);
    if (const Factor* factor = distributed_factor(factors, placed_.parts[id])) {
      const std::vector<int> axes = axes_cutting(id, factors, *factor);
      return keep_results(id, lower({id, call, node.attrs, *factor, axes, node.inputs}));
    }
    const std::vector<Type> types = infer_types(node.op, inputs, node.attrs, node.body.get());
    const ValueId first = out_.append(std::move(node), types, global_.infos[id]);
    std::vector<ValueId> results(old.results);
    std::iota(results.begin(), results.end(), first);
    if (results.size() == 1) results[0] = rows_.follow(id, first);
    keep_results(id, results);
  }

  std::vector<ValueId> lower(const DistributedNode& node) {
    const bool is_of_experts =
        distributed_op_of(node.call.op, node.factor.distributed_op).build == nullptr;
    return is_of_experts ? rows_.lower(node) : distribute_node(out_, node);
  }

  // A scan or call whose operands are converted.
  void run_body(NodeId id, Node node) {
    const LocalBody& body = local_body(id, rows_.give(node));
    node.body = body.function;
    const std::vector<Type> types =
        infer_types(node.op, input_types(out_.target(), node), node.attrs, node.body.get());
    const ValueId first = out_.append(std::move(node), types, global_.infos[id]);
    rows_.loop_shows(first, body.rows);
    std::vector<ValueId> results(global_.nodes[id].results);
    std::iota(results.begin(), results.end(), first);
    keep_results(id, results);
  }

  void say_cuts(const OpCall& call, ValueId result, Attrs& local) const {
    const Sharding cut = canonical(global_.mesh, placed_.shardings[result]);
    AxisPlacements placements;
    for (size_t axis = 0; axis < cut.size(); ++axis) {
      if (cut[axis].kind == PlacementKind::kShard)
        placements.emplace_back(global_.mesh.axes[axis].name, cut[axis]);
    }
    if (!placements.empty()) say_part(call, to_string(placements), local);
  }

  void keep_results(NodeId id, const std::vector<ValueId>& results) {
    const Node& node = global_.nodes[id];
    GW_ASSERT(results.size() == node.results);
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      const Type expected = local(value, placed_.shardings[value]);
      GW_ASSERT(out_.target().types[results[r]] == expected, "local ", to_string(node.op), " at ",
                where(global_, id), " gives ", to_string(out_.target().types[results[r]]),
                ", expected ", to_string(expected));
      keep(value, placed_.shardings[value], results[r]);
    }
  }

  // The mesh axes that cut a factor of a node, outer first. They are those of one of the factor's
  // dimensions that no other factor cuts.
  std::vector<int> axes_cutting(NodeId id, const Factors& factors, const Factor& factor) const {
    const auto is_alone = [&](std::vector<int> Factor::* dims, size_t i) {
      for (size_t f = 0; f < factors.size(); ++f) {
        const bool shares = (factors[f].*dims)[i] == (factor.*dims)[i] && &factors[f] != &factor;
        if (shares && placed_.parts[id][f] > 1) return false;
      }
      return (factor.*dims)[i] >= 0;
    };
    for (size_t i = 0; i < factor.input_dims.size(); ++i) {
      if (is_alone(&Factor::input_dims, i))
        return cut_axes(placed_.required[id][i], factor.input_dims[i]);
    }
    for (size_t r = 0; r < factor.result_dims.size(); ++r) {
      if (!is_alone(&Factor::result_dims, r)) continue;
      const ValueId value = global_.nodes[id].first_result + static_cast<ValueId>(r);
      return cut_axes(placed_.shardings[value], factor.result_dims[r]);
    }
    GW_ASSERT(false, "a factor that has no dimension of its own is cut");
  }

  ValueId converted(ValueId value, const Sharding& wanted) {
    const Sharding to = canonical(global_.mesh, wanted);
    if (const std::optional<ValueId> made = found(value, to)) return *made;
    if (const std::optional<ValueId> again = made_again(value, to)) {
      keep(value, to, *again);
      record_again(value, to);
      return *again;
    }
    for (const Sharding& other : wanted_[value]) {
      if (!found(value, other) && is_better_first(value, other, to)) follow(value, other, true);
    }
    return follow(value, to, false);
  }

  // Whether to convert the value to `other`, which another reader wants, before `to`, since the way
  // to `to` is shorter from there: a sum that one reader wants whole and another in parts is
  // reduced once, then cut.
  bool is_better_first(ValueId value, const Sharding& other, const Sharding& to) {
    const Type& type = global_.types[value];
    const int64_t to_other = nearest(value, other).path->cost_ps;
    const int64_t direct = nearest(value, to).path->cost_ps;
    const int64_t on = planner_.plan(type, other, to).cost_ps;
    const int64_t back = planner_.plan(type, to, other).cost_ps;
    return to_other + on < direct + std::min(back, to_other);
  }

  // The shortest way to `to`, and where it begins.
  struct Way {
    ValueId from = kNone;  // In the local function.
    const ConversionPath* path = nullptr;
  };
  Way nearest(ValueId value, const Sharding& to) {
    Way best;
    for (const Made& made :
         std::span(made_[value]).first(std::min(made_[value].size(), kBegunFromMax))) {
      if (!is_of_this_pass(made)) continue;
      const ConversionPath& path = planner_.plan(global_.types[value], made.sharding, to);
      ++looked_at_;
      if (best.path == nullptr || path.cost_ps < best.path->cost_ps) best = {made.local, &path};
    }
    return best;
  }

  ValueId follow(ValueId value, const Sharding& to, bool is_first) {
    const Way way = nearest(value, to);
    record(value, to, way, is_first);
    ValueId now = way.from;
    for (const ConversionStep& step : way.path->steps) {
      Node node{.op = step.op, .inputs = {now}, .attrs = step.attrs};
      now = out_.append(std::move(node), {local(value, step.after)}, derived(value));
      keep(value, step.after, now);
    }
    if (!found(value, to)) keep(value, to, now);
    return now;
  }

  void record(ValueId value, const Sharding& to, const Way& way, bool is_first) {
    if (shared_.records == nullptr) return;
    ConversionRecord made{.in = body_,
                          .value = value,
                          .reader = reader_,
                          .first = is_first,
                          .to = to,
                          .steps = way.path->steps,
                          .cost_ps = way.path->cost_ps};
    for (const Made& other : made_[value]) {
      if (!is_of_this_pass(other)) continue;
      if (other.local == way.from) {
        made.from = other.sharding;
      } else {
        const ConversionPath& path = planner_.plan(global_.types[value], other.sharding, to);
        made.rejected.push_back({other.sharding, path.cost_ps});
      }
    }
    shared_.records->push_back(std::move(made));
  }

  void record_again(ValueId value, const Sharding& to) {
    if (shared_.records == nullptr) return;
    shared_.records->push_back({.in = body_,
                                .value = value,
                                .reader = reader_,
                                .again = true,
                                .from = made_[value].front().sharding,
                                .to = to});
  }

  // Computes a constant or broadcast again under another sharding: equal ones have become one node,
  // which is cut as one of its readers wants. Does not where parts have padding, which would not be
  // zero. Only a constant 0 can become partial, since it is a sum of zeros.
  std::optional<ValueId> made_again(ValueId value, const Sharding& to) {
    const NodeId id = producers_[value];
    if (id == kNone) return std::nullopt;
    const Node& old = global_.nodes[id];
    if (!row(old.op).made_again) return std::nullopt;
    if (!cuts_evenly(global_.types[value], global_.mesh, to)) return std::nullopt;
    const bool is_zero = is_filled_with(old, 0);
    const std::vector<Type> inputs = input_types(global_, old);
    const OpCall call{old.op, inputs, old.attrs};
    const Factors factors = row(old.op).factors(call);
    std::vector<int64_t> parts(factors.size(), 1);
    std::vector<Sharding> wanted(inputs.size(), replicated(global_.mesh));
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis].kind == PlacementKind::kPartial && !is_zero) return std::nullopt;
      if (to[axis].kind != PlacementKind::kShard) continue;
      for (size_t f = 0; f < factors.size(); ++f) {
        if (factors[f].result_dims[0] != to[axis].dim) continue;
        parts[f] *= global_.mesh.axes[axis].size;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (factors[f].input_dims[i] >= 0)
            wanted[i][axis] = shard(factors[f].input_dims[i], to[axis].order);
        }
      }
    }
    Node node = old;
    for (size_t i = 0; i < inputs.size(); ++i) node.inputs[i] = converted(old.inputs[i], wanted[i]);
    node.attrs = local_attrs(call, factors, parts);
    return out_.append(std::move(node), {local(value, to)}, derived(value));
  }

  NodeInfo derived(ValueId value) const {
    const NodeId id = producers_[value];
    uint32_t loc = id == kNone ? loc_ : global_.infos[id].loc;
    return {.loc = loc, .origin = id, .reason = Reason::kPartition};
  }

  const Function& global_;
  const Function* const body_;
  const FunctionShardings& placed_;
  Shared& shared_;
  Rewriter out_;
  ExpertRows rows_;
  std::vector<NodeId> producers_;
  ConversionPlanner& planner_;
  std::vector<bool> is_weight_;  // Indexed by ValueId.
  Pass pass_ = Pass::kForward;   // Pass of the node that is visited.
  uint32_t loc_ = kNone;         // Location of that node, for which parameters are converted.
  NodeId reader_ = kNone;        // Reader of the converted value; kNone: a result of the function.
  std::vector<std::vector<Made>> made_;  // Indexed by ValueId; the producer's own first.
  // Indexed by ValueId: the shardings that its first readers want.
  std::vector<std::vector<Sharding>> wanted_;
  uint64_t looked_at_ = 0;
};

}  // namespace

Partitioned partition(const Function& global, const Propagation& propagation,
                      const std::vector<Sharding>& parameter_shardings,
                      const std::vector<Sharding>& wanted, const ConversionCosts& costs,
                      RecordConversions record) {
  for (ValueId p = 0; p < global.parameters.size(); ++p)
    GW_ASSERT(propagation.shardings[p] == parameter_shardings[p]);
  Shared shared{.propagation = propagation, .planner = ConversionPlanner(global.mesh, costs)};
  std::vector<ConversionRecord> records;
  if (record == RecordConversions::kYes) shared.records = &records;
  Partitioned done = Partitioner(global, propagation, shared).run(wanted);
  done.conversions = std::move(records);
  done.looked_at = shared.looked_at + shared.planner.edges_seen();
  return done;
}

}  // namespace gangway
