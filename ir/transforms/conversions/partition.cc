#include "ir/transforms/conversions/partition.h"

#include <map>
#include <optional>

#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class Partitioner {
 public:
  Partitioner(const Function& global, const Propagation& propagation,
              const std::vector<Sharding>& parameter_shardings)
      : global_(global), propagation_(propagation), out_(global) {
    out_.target().local = true;
    for (ValueId p = 0; p < global.parameters.size(); ++p) {
      GW_ASSERT(propagation.shardings[p] == parameter_shardings[p]);
      out_.target().types[p] = local(p, parameter_shardings[p]);
    }
  }

  Partitioned run(const std::vector<Sharding>& wanted) {
    for (NodeId id = 0; id < global_.nodes.size(); ++id) visit(id);
    Partitioned done;
    std::vector<ValueId> results;
    for (size_t r = 0; r < global_.results.size(); ++r) {
      ValueId value = global_.results[r];
      Sharding target = r < wanted.size() && !wanted[r].empty() ? wanted[r] : settled(value);
      results.push_back(converted(value, target, maker(value)));
      done.result_shardings.push_back(target);
    }
    done.function = std::move(out_.target());
    done.function.results = std::move(results);
    return done;
  }

 private:
  Type local(ValueId value, const Sharding& sharding) const {
    auto type = local_type(global_.types[value], global_.mesh, sharding);
    GW_ASSERT(type.has_value() && cuts_evenly(global_.types[value], global_.mesh, sharding),
              "value %", value, " ", to_string(global_.types[value]), " can't be cut as ",
              to_string(global_.mesh, sharding));
    return *type;
  }

  // What propagation gave, with sums done.
  Sharding settled(ValueId value) const {
    Sharding sharding = propagation_.shardings[value];
    for (Placement& placement : sharding) {
      if (placement.kind == PlacementKind::kPartial) placement = replicate();
    }
    return sharding;
  }

  NodeId maker(ValueId value) const {
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      const Node& node = global_.nodes[id];
      if (value >= node.first_result && value < node.first_result + node.results) return id;
    }
    return kNone;
  }

  void visit(NodeId id) {
    const Node& old = global_.nodes[id];
    Node node = old;
    std::vector<Type> global_inputs, inputs;
    global_inputs.reserve(node.inputs.size());
    inputs.reserve(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      global_inputs.push_back(global_.types[old.inputs[i]]);
      node.inputs[i] = converted(old.inputs[i], propagation_.required[id][i], id);
      inputs.push_back(out_.target().types[node.inputs[i]]);
    }
    const OpCall call{old.op, global_inputs, old.attrs};
    std::vector<Type> types;
    types.reserve(old.results);
    for (uint32_t r = 0; r < old.results; ++r) {
      types.push_back(local(old.first_result + r, propagation_.shardings[old.first_result + r]));
    }
    node.attrs = local_attrs(call, row(old.op).factors(call), propagation_.parts[id]);
    std::vector<Type> inferred = infer_types(node.op, inputs, node.attrs);
    GW_ASSERT(inferred == types, "local ", to_string(node.op), " at ", where(global_, id),
              " gives ", to_string(inferred[0]), ", expected ", to_string(types[0]));
    ValueId first = out_.append(std::move(node), types, global_.infos[id]);
    for (uint32_t r = 0; r < old.results; ++r) {
      ValueId value = old.first_result + r;
      out_.set(value, first + r);
      made_[{value, key(propagation_.shardings[value])}] = first + r;
    }
  }

  static std::string key(const Sharding& sharding) {
    std::string text;
    for (const Placement& placement : sharding) text += to_string(placement) + ";";
    return text;
  }

  ValueId converted(ValueId value, const Sharding& to, NodeId consumer) {
    const Sharding& from = propagation_.shardings[value];
    auto found = made_.find({value, key(to)});
    if (found != made_.end()) return found->second;
    if (from == to) return out_.at(value);
    if (const std::optional<ValueId> again = made_again(value, to, consumer)) {
      made_[{value, key(to)}] = *again;
      return *again;
    }
    require_slices(value, to, consumer);
    Sharding at = from;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis] == replicate()) at[axis] = replicate();
    }
    ValueId now = sum(value, from, to);
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (at[axis] == to[axis]) continue;
      at[axis] = to[axis];
      Node node{.op = Op::shard_slice, .inputs = {now}};
      node.attrs.set("axis", global_.mesh.axes[axis].name);
      node.attrs.set("dim", int64_t{to[axis].dim});
      node.attrs.set("parts", global_.mesh.axes[axis].size);
      now = out_.append(std::move(node), {local(value, at)}, derived(value));
    }
    made_[{value, key(to)}] = now;
    return now;
  }

  // All axes before any is sliced: what is sliced on one and not gathered on another may not
  // divide.
  void require_slices(ValueId value, const Sharding& to, NodeId consumer) const {
    Sharding at = propagation_.shardings[value];
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (at[axis].kind == PlacementKind::kPartial && to[axis].kind == PlacementKind::kReplicate) {
        at[axis] = replicate();
      }
      if (at[axis] == to[axis]) continue;
      if (at[axis] != replicate() || to[axis].kind != PlacementKind::kShard) {
        throw unimplemented(value, at[axis], to[axis], axis, kNone, consumer);
      }
      // The earlier axis is the outer cut: what the later one cut already lies elsewhere.
      for (size_t inner = axis + 1; inner < to.size(); ++inner) {
        if (at[inner] == to[axis])
          throw unimplemented(value, at[axis], to[axis], axis, inner, consumer);
      }
    }
  }

  // Constants and broadcasts that are cut as one reader wants them are computed again for another:
  // equal ones have become one node, whoever reads them.
  std::optional<ValueId> made_again(ValueId value, const Sharding& to, NodeId consumer) {
    const NodeId id = maker(value);
    if (id == kNone) return std::nullopt;
    const Node& old = global_.nodes[id];
    if (old.op != Op::broadcast && old.op != Op::constant) return std::nullopt;
    std::vector<Type> inputs;
    for (ValueId input : old.inputs) inputs.push_back(global_.types[input]);
    const OpCall call{old.op, inputs, old.attrs};
    const Factors factors = row(old.op).factors(call);
    std::vector<int64_t> parts(factors.size(), 1);
    std::vector<Sharding> wanted(inputs.size(), replicated(global_.mesh));
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis] == replicate()) continue;
      for (size_t f = 0; f < factors.size(); ++f) {
        if (factors[f].result_dims[0] != to[axis].dim) continue;
        parts[f] *= global_.mesh.axes[axis].size;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (factors[f].input_dims[i] >= 0) wanted[i][axis] = shard(factors[f].input_dims[i]);
        }
      }
    }
    Node node = old;
    for (size_t i = 0; i < inputs.size(); ++i)
      node.inputs[i] = converted(old.inputs[i], wanted[i], consumer);
    node.attrs = local_attrs(call, factors, parts);
    return out_.append(std::move(node), {local(value, to)}, derived(value));
  }

  // One all-reduce over every axis on which a sum is wanted.
  ValueId sum(ValueId value, const Sharding& from, const Sharding& to) {
    std::string axes;
    Sharding after = from;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (from[axis].kind != PlacementKind::kPartial || to[axis] != replicate()) continue;
      axes += (axes.empty() ? "" : ",") + global_.mesh.axes[axis].name;
      after[axis] = replicate();
    }
    if (axes.empty()) return out_.at(value);
    Node node{.op = Op::all_reduce, .inputs = {out_.at(value)}};
    node.attrs.set("axes", axes);
    node.attrs.set("reduction", std::string("sum"));
    ValueId now = out_.append(std::move(node), {local(value, after)}, derived(value));
    made_[{value, key(after)}] = now;
    return now;
  }

  NodeInfo derived(ValueId value) const {
    NodeId id = maker(value);
    uint32_t loc = id == kNone ? kNone : global_.infos[id].loc;
    return {.loc = loc, .origin = id, .reason = Reason::kPartition};
  }

  // `inner`: the later axis that cuts the same dimension, or kNone.
  Error unimplemented(ValueId value, Placement from, Placement to, size_t axis, size_t inner,
                      NodeId consumer) const {
    const std::vector<MeshAxis>& axes = global_.mesh.axes;
    std::string user = consumer == kNone ? "the function's results"
                                         : std::string(to_string(global_.nodes[consumer].op));
    Error error(
        ErrorKind::kUnimplemented,
        cat("partition: ", user, " needs %", value, " ", to_string(global_.types[value]), " as ",
            to_string(to), " on ", axes[axis].name, ", but it is ", to_string(from),
            inner < axes.size() ? cat(" there and ", to_string(to), " on ", axes[inner].name) : "",
            ": this conversion does not exist yet"),
        {.at = consumer == kNone ? "" : line_of(global_, consumer)},
        cat("change the annotations so that both agree:\n", explain(global_, propagation_, value)));
    return error;
  }

  const Function& global_;
  const Propagation& propagation_;
  Rewriter out_;
  std::map<std::pair<ValueId, std::string>, ValueId> made_;
};

}  // namespace

Partitioned partition(const Function& global, const Propagation& propagation,
                      const std::vector<Sharding>& parameter_shardings,
                      const std::vector<Sharding>& wanted) {
  return Partitioner(global, propagation, parameter_shardings).run(wanted);
}

}  // namespace gangway
