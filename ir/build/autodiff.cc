#include "ir/build/autodiff.h"

#include <map>
#include <optional>

#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class Backward {
 public:
  Backward(Value loss, const std::vector<Value>& wrt, Loc loc)
      : builder_(loss.builder()),
        nodes_(static_cast<NodeId>(builder_.function().nodes.size())),
        values_(builder_.function().value_count()),
        loc_(loc) {
    GW_REQUIRE(is_float(loss.dtype()) && loss.rank() == 0,
               "gradients: the loss must be a float scalar, got ", to_string(loss.type()),
               "\n  at ", to_string(loc));
    for (const Value& x : wrt) {
      GW_REQUIRE(x && &x.builder() == &builder_,
                 "gradients: a wanted value belongs to another function\n  at ", to_string(loc));
      GW_REQUIRE(is_float(x.dtype()),
                 "gradients: only float values have gradients, a wanted one is ",
                 to_string(x.type()), "\n  at ", to_string(loc));
    }
    mark_active(wrt);
  }

  std::vector<Value> run(Value loss, const std::vector<Value>& wrt) {
    cotangents_.resize(values_);
    if (active_[loss.id()]) {
      Builder::Derived derived(builder_, producers(builder_.function())[loss.id()],
                               Reason::kGradient);
      cotangents_[loss.id()] = builder_.constant(loss.type(), 1.0, loc_);
    }
    for (NodeId id = nodes_; id-- > 0;) visit(id);
    std::vector<Value> out;
    for (const Value& x : wrt) {
      Value found = cotangents_[x.id()];
      out.push_back(found ? found : builder_.constant(x.type(), 0.0, loc_));
    }
    // Rules add the cotangents of all operands; nodes that only frozen operands need are removed.
    builder_.prune(nodes_, out);
    return out;
  }

 private:
  // What the wanted values reach: nothing else is differentiated, so frozen state costs nothing.
  void mark_active(const std::vector<Value>& wrt) {
    active_.assign(values_, false);
    for (const Value& x : wrt) active_[x.id()] = true;
    const Function& function = builder_.function();
    for (NodeId id = 0; id < nodes_; ++id) {
      const Node& node = function.nodes[id];
      if (node.op == Op::stop_gradient) continue;
      bool reached = false;
      for (ValueId input : node.inputs) reached = reached || active_[input];
      for (uint32_t r = 0; r < node.results; ++r) {
        ValueId value = node.first_result + r;
        active_[value] = active_[value] || (reached && is_float(function.types[value].dtype));
      }
    }
  }

  void visit(NodeId id) {
    const Node node = builder_.function().nodes[id];  // A copy: rules append nodes.
    std::vector<Value> cotangents(node.results);
    bool wanted = false, reached = false;
    for (uint32_t r = 0; r < node.results; ++r) {
      cotangents[r] = cotangents_[node.first_result + r];
      wanted = wanted || cotangents[r];
    }
    for (ValueId input : node.inputs) reached = reached || active_[input];
    if (!wanted || !reached || node.op == Op::stop_gradient) return;
    const OpRow& rules = row(node.op);
    if (rules.gradient == nullptr) {
      throw Error(ErrorKind::kInvalid,
                  cat("gradients: ", rules.name, " has no gradient (", rules.no_gradient,
                      "), but the loss depends on a wanted value through it"),
                  {.at = line_of(builder_.function(), id)},
                  "put stop_gradient around it if that is meant");
    }
    Builder::Derived derived(builder_, id, Reason::kGradient);
    std::vector<Value> inputs, results;
    for (ValueId input : node.inputs) inputs.push_back(residual(node, input));
    for (uint32_t r = 0; r < node.results; ++r)
      results.push_back(residual(node, node.first_result + r));
    std::vector<Value> terms = rules.gradient({builder_, node, inputs, results, cotangents, loc_});
    GW_ASSERT(terms.size() == node.inputs.size(), "the gradient rule of ", rules.name, " gives ",
              terms.size(), " cotangents for ", node.inputs.size(), " operands");
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i] && active_[node.inputs[i]]) accumulate(node.inputs[i], terms[i], rules);
    }
  }

  void accumulate(ValueId value, Value term, const OpRow& rules) {
    GW_ASSERT(term.type() == builder_.type(value), "the gradient rule of ", rules.name, " gives ",
              to_string(term.type()), " for an operand ", to_string(builder_.type(value)));
    Value& total = cotangents_[value];
    total = total ? builder_.emit1(Op::add, {total, term}, {}, loc_) : term;
  }

  // The value that a rule of `node` may read: the kept one, or, inside a rematerialisation region,
  // a recomputed one.
  Value residual(const Node& node, ValueId value) {
    if (node.region == 0) return {&builder_, value};
    auto& recomputed = recomputed_[node.region];
    if (recomputed.empty()) recompute(node.region, recomputed);
    auto found = recomputed.find(value);
    return found == recomputed.end() ? Value{&builder_, value} : found->second;
  }

  // Clones a region as a unit, behind barriers on what it reads, so that no pass merges it with its
  // first execution.
  void recompute(uint32_t region, std::map<ValueId, Value>& values) {
    for (NodeId id = 0; id < nodes_; ++id) {
      const Node node = builder_.function().nodes[id];
      if (node.region != region) continue;
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

  Builder& builder_;
  NodeId nodes_;  // Of the forward pass; the nodes after these were added here.
  ValueId values_;
  Loc loc_;
  std::vector<bool> active_;
  std::vector<Value> cotangents_;
  std::map<uint32_t, std::map<ValueId, Value>> recomputed_;
};

}  // namespace

std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt, Loc loc) {
  return Backward(loss, wrt, loc).run(loss, wrt);
}

Tree gradients(Value loss, const Tree& wrt, Loc loc) {
  std::vector<Value> leaves;
  wrt.for_each([&](const std::string&, const Value& value) { leaves.push_back(value); });
  std::vector<Value> grads = gradients(loss, leaves, loc);
  size_t next = 0;
  return wrt.map([&](const std::string&, const Value&) { return grads[next++]; });
}

}  // namespace gangway
