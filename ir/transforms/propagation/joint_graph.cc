#include "ir/transforms/propagation/joint_graph.h"

#include "ir/graph/bodies.h"

namespace gangway {

JointGraph::JointGraph(const Function& global) {
  parts_.push_back({.function = &global});
  collect();
  if (parts_.size() > 1) join();
}

// All bodies, and who names them.
void JointGraph::collect() {
  users_.emplace_back();
  for (size_t at = 0; at < parts_.size(); ++at) {
    const Function& function = *parts_[at].function;
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      const Node& node = function.nodes[id];
      if (!shares_body(node.op)) continue;
      const ScanLayout layout(node);
      const BodyKey key{node.body.get(), layout.carries, layout.invariants, layout.stacks};
      const auto [found, is_new] = part_of_.try_emplace(key, parts_.size());
      if (is_new) {
        parts_.push_back({.function = node.body.get()});
        users_.emplace_back();
      }
      uses_[{at, id}] = {found->second, users_[found->second].size()};
      users_[found->second].push_back({at, id});
    }
  }
}

void JointGraph::join() {
  const Function& global = *parts_[0].function;
  joint_ = std::make_shared<Function>();
  joint_->name = global.name;
  joint_->mesh = global.mesh;
  joint_->parameters = global.parameters;
  joint_->result_names = global.result_names;
  for (Part& part : parts_) {
    part.values.assign(part.function->types.size(), kNone);
    part.nodes.assign(part.function->nodes.size(), kNone);
    add_locations(*part.function);
  }
  for (ValueId p = 0; p < global.parameters.size(); ++p) add_value({0, p});
  is_emitted_.assign(parts_.size(), false);
  emit(0);
  for (NodeId id = 0; id < ties_.size(); ++id) connect(id);
  for (ValueId result : global.results) joint_->results.push_back(parts_[0].values[result]);
}

void JointGraph::add_locations(const Function& function) {
  const auto first = static_cast<uint32_t>(joint_->locs.size());
  first_locs_.push_back(first);
  for (LocEntry entry : function.locs) {
    if (entry.parent != kNone) entry.parent += first;
    joint_->locs.push_back(std::move(entry));
  }
}

ValueId JointGraph::add_value(Seen seen) {
  Part& part = parts_[seen.part];
  const ValueId value = joint_->value_count();
  part.values[seen.value] = value;
  joint_->types.push_back(part.function->types[seen.value]);
  seen_.push_back(seen);
  return value;
}

NodeInfo JointGraph::info_of(size_t part, NodeId id) const {
  const Function& function = *parts_[part].function;
  NodeInfo info = id < function.infos.size() ? function.infos[id] : NodeInfo{};
  if (info.loc != kNone) info.loc += first_locs_[part];
  info.origin = kNone;
  return info;
}

// A body stands where it is first named.
void JointGraph::emit(size_t at) {
  is_emitted_[at] = true;
  for (NodeId id = 0; id < parts_[at].function->nodes.size(); ++id) {
    if (!shares_body(parts_[at].function->nodes[id].op)) {
      emit_node(at, id);
      continue;
    }
    const size_t body = use(at, id).body;
    if (is_emitted_[body]) continue;
    emit_operand_ties(body);
    emit(body);
    emit_result_ties(body);
  }
}

void JointGraph::emit_node(size_t at, NodeId id) {
  Part& part = parts_[at];
  Node node = part.function->nodes[id];
  const ValueId first = node.first_result;
  for (ValueId& input : node.inputs) input = part.values[input];
  node.first_result = joint_->value_count();
  for (uint32_t r = 0; r < node.results; ++r) add_value({at, first + r});
  part.nodes[id] = static_cast<NodeId>(joint_->nodes.size());
  joint_->nodes.push_back(std::move(node));
  joint_->infos.push_back(info_of(at, id));
  ties_.emplace_back();
}

NodeId JointGraph::append_tie(Tie tie, const std::vector<Seen>& results) {
  const User& user = users_[tie.body][0];
  joint_->nodes.push_back({.op = node_of(user).op,
                           .first_result = joint_->value_count(),
                           .results = static_cast<uint32_t>(results.size())});
  joint_->infos.push_back(info_of(user.part, user.node));
  for (const Seen& result : results) add_value(result);
  ties_.push_back(tie);
  return static_cast<NodeId>(joint_->nodes.size() - 1);
}

void JointGraph::emit_operand_ties(size_t at) {
  const ScanLayout layout(node_of(users_[at][0]));
  for (ValueId p = 0; p < parts_[at].function->parameters.size(); ++p) {
    const TieKind kind = p < layout.carries           ? TieKind::kCarry
                         : p < layout.first_stacked() ? TieKind::kInvariant
                                                      : TieKind::kStackedOperand;
    std::vector<Seen> results{{at, p}};
    if (kind == TieKind::kCarry) {
      for (const User& user : users_[at])
        results.push_back({user.part, node_of(user).first_result + p});
    }
    parts_[at].operands.push_back(append_tie({kind, at, p}, results));
  }
}

void JointGraph::emit_result_ties(size_t at) {
  const ScanLayout layout(node_of(users_[at][0]));
  for (uint32_t r = 0; r < parts_[at].function->results.size(); ++r) {
    if (r < layout.carries) {
      parts_[at].results.push_back(parts_[at].operands[r]);
      continue;
    }
    std::vector<Seen> results;
    for (const User& user : users_[at])
      results.push_back({user.part, node_of(user).first_result + r});
    const TieKind kind = layout.stacks ? TieKind::kStackedResult : TieKind::kCallResult;
    parts_[at].results.push_back(append_tie({kind, at, r}, results));
  }
}

// A tie's operands may come from nodes behind it: a carry takes the body's result.
void JointGraph::connect(NodeId id) {
  const Tie& tie = ties_[id];
  if (tie.kind == TieKind::kNoTie) return;
  std::vector<ValueId>& inputs = joint_->nodes[id].inputs;
  const Part& body = parts_[tie.body];
  const bool is_result = tie.kind == TieKind::kStackedResult || tie.kind == TieKind::kCallResult;
  for (const User& user : users_[tie.body]) {
    if (!is_result) inputs.push_back(parts_[user.part].values[node_of(user).inputs[tie.index]]);
  }
  if (is_result || tie.kind == TieKind::kCarry)
    inputs.push_back(body.values[body.function->results[tie.index]]);
}

Factors JointGraph::tie_factors(NodeId id) const {
  const Node& node = graph().nodes[id];
  const TieKind kind = ties_[id].kind;
  const int in_shift = kind == TieKind::kStackedOperand ? 1 : 0;
  const int out_shift = kind == TieKind::kStackedResult ? 1 : 0;
  // Type of the value in the body.
  const Type& type = graph().types[out_shift == 1 ? node.inputs[0] : node.first_result];
  Factors factors;
  for (int d = 0; d < static_cast<int>(type.dims.size()); ++d) {
    Factor factor{.name = static_cast<char>('i' + d),
                  .size = type.dims[static_cast<size_t>(d)],
                  .input_dims = std::vector<int>(node.inputs.size(), d + in_shift),
                  .result_dims = std::vector<int>(node.results, d + out_shift)};
    factors.push_back(std::move(factor));
  }
  return factors;
}

ValueId JointGraph::at(const Function* body, ValueId value) const {
  if (joint_ == nullptr) return value;
  for (size_t part = 1; part < parts_.size(); ++part) {
    if (parts_[part].function == body) return parts_[part].values[value];
  }
  return parts_[0].values[value];
}

std::vector<Factors> factors_of(const JointGraph& joint) {
  const Function& graph = joint.graph();
  std::vector<Factors> all;
  all.reserve(graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (joint.is_tie(id)) {
      all.push_back(joint.tie_factors(id));
      continue;
    }
    const Node& node = graph.nodes[id];
    const std::vector<Type> inputs = input_types(graph, node);
    all.push_back(row(node.op).factors({node.op, inputs, node.attrs, node.body.get()}));
  }
  return all;
}

}  // namespace gangway
