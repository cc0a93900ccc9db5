#include "ir/build/backward.h"

#include <utility>

#include "ir/build/body_cache.h"
#include "ir/build/gradient.h"
#include "runtime/base/error.h"

namespace gangway::internal {

std::vector<bool> active_values(const Function& function, NodeId nodes,
                                const std::vector<ValueId>& wanted) {
  std::vector<bool> active(function.types.size(), false);
  for (ValueId value : wanted) active[value] = true;
  for (NodeId id = 0; id < nodes; ++id) {
    const Node& node = function.nodes[id];
    if (node.op == Op::stop_gradient) continue;
    bool reached = false;
    for (ValueId input : node.inputs) reached = reached || active[input];
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      active[value] = active[value] || (reached && is_float(function.types[value].dtype));
    }
  }
  return active;
}

Backward::Backward(Builder& builder, std::vector<bool> active, Loc loc, Missing missing)
    : builder_(builder),
      nodes_(static_cast<NodeId>(builder.function().nodes.size())),
      loc_(loc),
      missing_(missing),
      active_(std::move(active)),
      cotangents_(active_.size()) {
  for (NodeId id = 0; id < nodes_; ++id) {
    const uint32_t region = builder.function().nodes[id].region;
    if (region != 0) regions_[region].push_back(id);
  }
}

void Backward::seed(ValueId value, Value cotangent) {
  Value& total = cotangents_[value];
  total = total.empty() ? cotangent : builder_.emit1(Op::add, {total, cotangent}, {}, loc_);
}

void Backward::run() {
  for (NodeId id = nodes_; id-- > 0;) visit(id);
}

void Backward::visit(NodeId id) {
  const Node node = builder_.function().nodes[id];  // A copy: rules append nodes.
  std::vector<Value> cotangents(node.results);
  std::vector<bool> wanted(node.inputs.size());
  bool given = false, reached = false;
  for (uint32_t r = 0; r < node.results; ++r) {
    cotangents[r] = cotangents_[node.first_result + r];
    given = given || !cotangents[r].empty();
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    wanted[i] = active_[node.inputs[i]];
    reached = reached || wanted[i];
  }
  if (!given || !reached || node.op == Op::stop_gradient) return;
  const OpRow& rules = row(node.op);
  const bool is_adjoint = builder_.bodies().is_adjoint(node.body.get());
  if (rules.gradient == nullptr || is_adjoint) {
    if (missing_ == Missing::kPassedBy) return;
    throw Error(ErrorKind::kInvalid,
                cat("gradients: ", rules.name, " has no gradient (",
                    is_adjoint ? "it is one itself" : rules.no_gradient,
                    "), but the loss depends on a wanted value through it"),
                {.at = line_of(builder_.function(), id)},
                "put stop_gradient around it if that is meant");
  }
  Builder::Derived derived(builder_, id, Reason::kGradient);
  std::vector<Value> inputs, results;
  for (ValueId input : node.inputs) inputs.push_back(residual(node, input));
  for (uint32_t r = 0; r < node.results; ++r)
    results.push_back(residual(node, node.first_result + r));
  std::vector<Value> terms;
  try {
    terms = rules.gradient({builder_, node, inputs, results, cotangents, loc_, wanted});
  } catch (Error& error) {
    // Something in the node's body has no gradient: as an op without one.
    if (missing_ == Missing::kPassedBy && error.kind() == ErrorKind::kInvalid) return;
    error.add_where({.at = line_of(builder_.function(), id)});
    throw;
  }
  GW_ASSERT(terms.size() == node.inputs.size(), "the gradient rule of ", rules.name, " gives ",
            terms.size(), " cotangents for ", node.inputs.size(), " operands");
  for (size_t i = 0; i < terms.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (terms[i].empty() || !wanted[i]) continue;
    GW_ASSERT(terms[i].type() == builder_.type(input), "the gradient rule of ", rules.name,
              " gives ", to_string(terms[i].type()), " for an operand ",
              to_string(builder_.type(input)));
    seed(input, terms[i]);
  }
}

// The value that a rule of `node` may read: the kept one, or, inside a rematerialisation region, a
// recomputed one.
Value Backward::residual(const Node& node, ValueId value) {
  if (node.region == 0) return {&builder_, value};
  auto& recomputed = recomputed_[node.region];
  if (recomputed.empty()) recompute(node.region, recomputed);
  auto found = recomputed.find(value);
  return found == recomputed.end() ? Value{&builder_, value} : found->second;
}

// Clones a region as a unit, behind barriers on what it reads, so that no pass merges it with its
// first execution.
void Backward::recompute(uint32_t region, std::map<ValueId, Value>& values) {
  for (const NodeId id : regions_.at(region)) {
    const Node node = builder_.function().nodes[id];  // A copy: clone() appends nodes.
    Builder::Derived derived(builder_, id, Reason::kRematerialize);
    std::vector<Value> inputs;
    for (ValueId input : node.inputs) {
      auto [at, is_new] = values.try_emplace(input);
      if (is_new) at->second = builder_.emit1(Op::barrier, {{&builder_, input}}, {}, loc_);
      inputs.push_back(at->second);
    }
    std::vector<Value> results = builder_.clone(id, inputs, Reason::kRematerialize);
    for (uint32_t r = 0; r < node.results; ++r) values[node.first_result + r] = results[r];
  }
}

}  // namespace gangway::internal
