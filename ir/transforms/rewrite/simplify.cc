#include "ir/transforms/rewrite/simplify.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/graph/bodies.h"
#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

bool is_identity(const Function& function, const Node& node) {
  if (node.op == Op::stop_gradient) return true;
  if (node.op == Op::constrain) return function.local;  // In the global view it says something.
  if (node.op != Op::reshape && node.op != Op::broadcast && node.op != Op::convert) return false;
  return function.types[node.inputs[0]] == function.types[node.first_result];
}

// Every operand of a node that runs is needed.
std::vector<bool> live_nodes(const Function& function) {
  std::vector<bool> wanted(function.types.size(), false);
  for (ValueId result : function.results) wanted[result] = true;
  std::vector<bool> live(function.nodes.size(), false);
  for (NodeId id = static_cast<NodeId>(function.nodes.size()); id-- > 0;) {
    const Node& node = function.nodes[id];
    live[id] = any_result(wanted, node);
    if (!live[id]) continue;
    for (ValueId input : node.inputs) wanted[input] = true;
  }
  return live;
}

class Simplifier {
 public:
  // `made`: where to keep what became of the bodies; null: nowhere.
  explicit Simplifier(SimplifiedFunctions* made) : made_(made) {}

  // `values`: where to keep what stands for its values; null: nowhere.
  Function run(const Function& function, std::vector<ValueId>* values) {
    const std::vector<bool> live = uses_.live_values(function);
    Rewriter out(function);
    using Key = std::tuple<Op, std::vector<ValueId>, std::string>;
    std::map<Key, ValueId> seen;
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      const Node& node = function.nodes[id];
      if (!any_result(live, node)) continue;
      if (is_identity(function, node)) {
        out.set(node.first_result, out.at(node.inputs[0]));
        continue;
      }
      if (shares_body(node.op)) {
        narrow(out, id, live);
        continue;
      }
      // Two collectives that partition() inserted are equal only if a weight is gathered for each
      // pass by itself.
      if (stays_in_place(node.op) || node.body) {
        out.copy(id);
        continue;
      }
      std::vector<ValueId> inputs;
      inputs.reserve(node.inputs.size());
      for (ValueId input : node.inputs) inputs.push_back(out.at(input));
      auto [at, is_new] = seen.try_emplace({node.op, inputs, attrs_key(node.attrs)}, kNone);
      if (is_new) {
        out.copy(id);
        at->second = out.at(node.first_result);
      } else {
        for (uint32_t r = 0; r < node.results; ++r) out.set(node.first_result + r, at->second + r);
      }
    }
    if (values != nullptr) {
      for (ValueId id = 0; id < function.types.size(); ++id) values->push_back(out.at(id));
    }
    return out.finish();
  }

 private:
  // A scan or call with the operands and results that are needed alone, and its body simplified.
  void narrow(Rewriter& out, NodeId id, const std::vector<bool>& live) {
    const Function& function = out.source();
    Node node = function.nodes[id];
    std::vector<bool> read(node.results);
    for (uint32_t r = 0; r < node.results; ++r) read[r] = live[node.first_result + r];
    const BodyUse& use = uses_.used_by(node, read);
    std::vector<Type> types;
    for (uint32_t r = 0; r < node.results; ++r) {
      if (use.results[r]) types.push_back(function.types[node.first_result + r]);
    }
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (use.operands[i]) inputs.push_back(out.at(node.inputs[i]));
    }
    node.inputs = std::move(inputs);
    if (node.op == Op::scan) count_operands(node, use);
    node.body = body(node.body, use);
    const uint32_t results = node.results;
    const ValueId old = node.first_result;
    ValueId next = out.append(std::move(node), types, function.infos[id]);
    for (uint32_t r = 0; r < results; ++r) {
      if (use.results[r]) out.set(old + r, next++);
    }
  }

  static void count_operands(Node& node, const BodyUse& use) {
    const ScanLayout scan(node.attrs);
    const auto begin = use.operands.begin();
    const auto count = [](auto first, auto last) { return int64_t{std::count(first, last, true)}; };
    const auto carries = begin + static_cast<std::ptrdiff_t>(scan.carries);
    const auto invariants = begin + static_cast<std::ptrdiff_t>(scan.first_stacked());
    node.attrs.set("carries", count(begin, carries));
    node.attrs.set("invariants", count(carries, invariants));
  }

  // Nodes that need the same of one body share what becomes of it.
  std::shared_ptr<const Function> body(const std::shared_ptr<const Function>& of,
                                       const BodyUse& use) {
    auto [at, is_new] = bodies_.try_emplace({of.get(), use.operands, use.results});
    if (!is_new) return at->second;
    std::vector<ValueId> values;
    Function simplified = run(keep_results(*of, use.results), made_ == nullptr ? nullptr : &values);
    auto made = std::make_shared<const Function>(keep_parameters(simplified, use.operands));
    if (made_ != nullptr) {
      leave_out(use.operands, values);
      made_->insert_or_assign(of.get(), SimplifiedValues{made.get(), std::move(values)});
    }
    return bodies_[{of.get(), use.operands, use.results}] = std::move(made);
  }

  // Numbers values as keep_parameters() does.
  static void leave_out(const std::vector<bool>& kept, std::vector<ValueId>& values) {
    std::vector<ValueId> before(kept.size() + 1, 0);  // Parameters that are gone, before each.
    for (size_t p = 0; p < kept.size(); ++p) before[p + 1] = before[p] + (kept[p] ? 0 : 1);
    for (ValueId& value : values) {
      if (value == kNone) continue;
      const bool is_gone = value < kept.size() && !kept[value];
      value = is_gone ? kNone : value - before[std::min<size_t>(value, kept.size())];
    }
  }

  using BodyKey = std::tuple<const Function*, std::vector<bool>, std::vector<bool>>;
  std::map<BodyKey, std::shared_ptr<const Function>> bodies_;
  BodyUses uses_;
  SimplifiedFunctions* made_;
};

}  // namespace

Function simplify(const Function& function, SimplifiedFunctions* made) {
  Simplifier simplifier(made);
  if (made == nullptr) return simplifier.run(function, nullptr);
  std::vector<ValueId> values;
  Function simplified = simplifier.run(function, &values);
  made->insert_or_assign(nullptr, SimplifiedValues{nullptr, std::move(values)});
  return simplified;
}

Function remove_dead(const Function& function, NodeId& commit_begin) {
  std::vector<bool> live = live_nodes(function);
  Rewriter out(function);
  NodeId begin = kNone;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    if (id == commit_begin) begin = static_cast<NodeId>(out.target().nodes.size());
    if (live[id]) out.copy(id);
  }
  commit_begin = begin == kNone ? static_cast<NodeId>(out.target().nodes.size()) : begin;
  return out.finish();
}

}  // namespace gangway
