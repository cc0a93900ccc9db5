#include "ir/build/body_gradient.h"

#include <utility>

#include "ir/build/backward.h"
#include "ir/graph/bodies.h"
#include "runtime/base/error.h"

namespace gangway::internal {
namespace {

BodyLayout layout_of(const Node& node) {
  const ScanLayout loop(node);
  return {.repeats = row(node.op).repeats_body,
          .carries = loop.carries,
          .first_stacked = loop.first_stacked()};
}

// A body with its backward pass behind it. Parameters: those of the body, then a cotangent for each
// of `carried`, a sum for each of `summed`, a cotangent for each of `given`.
struct Differentiated {
  Function function;
  size_t parameters = 0;  // Parameters of the body.
  size_t added = 0;       // Parameters behind them.
  NodeId nodes = 0;       // Nodes of the body, which come first.
  std::vector<size_t> carried, summed, given;
  std::vector<size_t> wanted;  // The parameters whose cotangents are its results.

  // The number that a value of the body has here.
  ValueId here(ValueId value) const {
    return value < parameters ? value : value + static_cast<ValueId>(added);
  }
  ValueId in_body(ValueId value) const {
    return value < parameters ? value : value - static_cast<ValueId>(added);
  }
};

class Differentiation {
 public:
  Differentiation(const Function& body, const BodyLayout& layout, const Builder& outer,
                  Backward::Missing missing)
      : body_(body), layout_(layout), builder_(outer, body), missing_(missing) {}

  Differentiated run(std::vector<bool> wanted, const std::vector<bool>& given) {
    const std::vector<bool> active = reach(wanted);
    Backward backward(builder_, active, {}, missing_);
    done_.parameters = body_.parameters.size();
    done_.nodes = backward.nodes();
    seed(backward, wanted, given);
    done_.added = builder_.function().parameters.size() - done_.parameters;
    backward.run();
    for (size_t p = 0; p < wanted.size(); ++p) {
      if (!wanted[p]) continue;
      const auto id = static_cast<ValueId>(p);
      Value found = backward.cotangent(id);
      if (found.empty()) found = builder_.constant(body_.types[id], 0.0, {});
      builder_.result(cat("cotangent.", p), found, {});
      done_.wanted.push_back(p);
    }
    done_.function = builder_.build();
    return std::move(done_);
  }

 private:
  // A carry that depends on what is wanted is differentiated too: what the next iteration does with
  // it flows back through it.
  std::vector<bool> reach(std::vector<bool>& wanted) const {
    const auto nodes = static_cast<NodeId>(body_.nodes.size());
    for (size_t p = 0; p < wanted.size(); ++p)
      wanted[p] = wanted[p] && is_float(body_.types[p].dtype);
    for (;;) {
      std::vector<ValueId> ids;
      for (size_t p = 0; p < wanted.size(); ++p) {
        if (wanted[p]) ids.push_back(static_cast<ValueId>(p));
      }
      std::vector<bool> active = active_values(body_, nodes, ids);
      bool again = false;
      for (size_t c = 0; c < layout_.carries; ++c) {
        if (wanted[c] || !active[body_.results[c]] || !is_float(body_.types[c].dtype)) continue;
        wanted[c] = again = true;
      }
      if (!again) return active;
    }
  }

  void seed(Backward& backward, const std::vector<bool>& wanted, const std::vector<bool>& given) {
    const auto add = [&](const char* what, const std::string& name, ValueId value) {
      backward.seed(value, builder_.parameter(cat(what, name), body_.types[value], {}, {}));
    };
    for (size_t c = 0; c < layout_.carries; ++c) {
      if (!wanted[c]) continue;
      add("cotangent.", body_.parameters[c].name, body_.results[c]);
      done_.carried.push_back(c);
    }
    for (size_t p = layout_.carries; layout_.repeats && p < layout_.first_stacked; ++p) {
      if (!wanted[p]) continue;
      add("sum.", body_.parameters[p].name, static_cast<ValueId>(p));
      done_.summed.push_back(p);
    }
    for (size_t r = layout_.carries; r < body_.results.size(); ++r) {
      if (!given[r] || !is_float(body_.types[body_.results[r]].dtype)) continue;
      add("cotangent.", body_.result_names[r], body_.results[r]);
      done_.given.push_back(r);
    }
  }

  const Function& body_;
  const BodyLayout& layout_;
  Builder builder_;
  Backward::Missing missing_;
  Differentiated done_;
};

// The values and nodes of the forward pass that the backward pass needs, from its results back to
// values that are kept.
struct Needs {
  std::vector<bool> nodes;   // For each node of Differentiated::function: whether it runs.
  std::vector<bool> values;  // For each value: whether it is read.
};

// is_kept(value of the body): it is read as it is instead of being computed again.
template <class IsKept>
Needs needs_of(const Differentiated& d, const IsKept& is_kept) {
  const Function& f = d.function;
  Needs needs{.nodes = std::vector<bool>(f.nodes.size()),
              .values = std::vector<bool>(f.types.size())};
  for (ValueId result : f.results) needs.values[result] = true;
  for (auto id = static_cast<NodeId>(f.nodes.size()); id-- > 0;) {
    const Node& node = f.nodes[id];
    bool runs = false;
    for (uint32_t r = 0; r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      runs = runs || (needs.values[value] && !(id < d.nodes && is_kept(d.in_body(value))));
    }
    needs.nodes[id] = runs;
    if (!runs) continue;
    for (ValueId input : node.inputs) needs.values[input] = true;
  }
  return needs;
}

// To compute again. An annotated value is kept: what it was before may lie elsewhere, and would be
// converted again.
bool is_cheap(Op op) {
  switch (static_cast<int>(op)) {
    case static_cast<int>(Op::constant):
    case static_cast<int>(Op::iota):
    case static_cast<int>(Op::table):
    case static_cast<int>(Op::broadcast):
    case static_cast<int>(Op::reshape):
    case static_cast<int>(Op::transpose):
    case static_cast<int>(Op::convert):
    case static_cast<int>(Op::stop_gradient):
    case static_cast<int>(Op::barrier): return true;
    default: return false;
  }
}

// For each value of the body, whether it is worth keeping: its op costs work, and it differs
// between iterations.
std::vector<bool> worth_keeping(const Function& body, const BodyLayout& layout) {
  std::vector<bool> varies(body.types.size(), false), worth(body.types.size(), false);
  for (size_t p = 0; p < body.parameters.size(); ++p)
    varies[p] = !layout.repeats || p < layout.carries || p >= layout.first_stacked;
  for (const Node& node : body.nodes) {
    bool of_node = false;
    for (ValueId input : node.inputs) of_node = of_node || varies[input];
    for (uint32_t r = 0; r < node.results; ++r) {
      varies[node.first_result + r] = of_node;
      worth[node.first_result + r] = of_node && !is_cheap(node.op);
    }
  }
  return worth;
}

// For each value of the body the result, carries aside, that holds it; or none.
std::vector<size_t> holders(const Function& body, const BodyLayout& layout) {
  std::vector<size_t> of(body.types.size(), kNone);
  for (size_t r = body.results.size(); r-- > layout.carries;) of[body.results[r]] = r;
  return of;
}

// Cuts the backward pass out of a body that is differentiated.
class Extraction {
 public:
  Extraction(const Function& body, const BodyLayout& layout, Differentiated differentiated)
      : body_(body),
        layout_(layout),
        d_(std::move(differentiated)),
        held_(holders(body, layout)),
        needs_(needs_of(d_, [this](ValueId value) { return held_[value] != kNone; })),
        map_(d_.function.types.size(), kNone) {}

  Adjoint run() {
    auto made = std::make_shared<Function>();
    made->name = cat(body_.name, ".gradient");
    made->mesh = body_.mesh;
    made->locs = d_.function.locs;
    adjoint_ = {.function = nullptr,
                .carried = d_.carried,
                .summed = d_.summed,
                .whole = {},
                .slices = {},
                .kept = {},
                .given = d_.given,
                .results = d_.wanted};
    add_parameters(*made);
    for (NodeId id = 0; id < d_.function.nodes.size(); ++id) {
      if (needs_.nodes[id]) add_node(*made, id);
    }
    for (ValueId result : d_.function.results) made->results.push_back(map_[result]);
    made->result_names = d_.function.result_names;
    adjoint_.function = std::move(made);
    return std::move(adjoint_);
  }

 private:
  void add_parameters(Function& made) {
    const size_t carried = d_.carried.size() + d_.summed.size();
    for (size_t i = 0; i < carried; ++i) add(made, cotangent(i), cotangent_name(i));
    // The cotangents of an adjoint scan stand in the order of its results: carries, sums, slices.
    for (size_t p = layout_.carries; p < body_.parameters.size(); ++p) {
      if (!needs_.values[p]) continue;
      (p < layout_.first_stacked ? adjoint_.whole : adjoint_.slices).push_back(p);
      add(made, static_cast<ValueId>(p), body_.parameters[p].name);
    }
    for (ValueId value = 0; value < body_.types.size(); ++value) {
      const bool is_carry = value < layout_.carries;
      if (!needs_.values[d_.here(value)] || (!is_carry && held_[value] == kNone)) continue;
      if (!is_carry && value < body_.parameters.size()) continue;  // Read as an operand.
      GW_REQUIRE(held_[value] != kNone, "gradients: the body \"", body_.name,
                 "\" does not keep its carry \"", body_.parameters[value].name,
                 "\" for a gradient: expected a body that scan() has traced");
      adjoint_.kept.push_back(held_[value]);
      add(made, d_.here(value), body_.result_names[held_[value]]);
    }
    for (size_t i = 0; i < d_.given.size(); ++i)
      add(made, cotangent(carried + i), cotangent_name(carried + i));
  }

  ValueId cotangent(size_t i) const { return static_cast<ValueId>(d_.parameters + i); }
  const std::string& cotangent_name(size_t i) const {
    return d_.function.parameters[d_.parameters + i].name;
  }

  void add(Function& made, ValueId value, const std::string& name) {
    map_[value] = made.value_count();
    made.types.push_back(d_.function.types[value]);
    made.parameters.push_back({name, {}});
  }

  void add_node(Function& made, NodeId id) {
    Node node = d_.function.nodes[id];
    const ValueId old = node.first_result;
    for (ValueId& input : node.inputs) {
      GW_ASSERT(map_[input] != kNone, "the adjoint of \"", body_.name, "\" lacks %", input);
      input = map_[input];
    }
    node.first_result = made.value_count();
    node.region = 0;
    for (uint32_t r = 0; r < node.results; ++r) {
      map_[old + r] = made.value_count();
      made.types.push_back(d_.function.types[old + r]);
    }
    made.nodes.push_back(std::move(node));
    const NodeInfo& info = d_.function.infos[id];
    made.infos.push_back(
        {.loc = info.loc, .reason = id < d_.nodes ? Reason::kRematerialize : info.reason});
  }

  const Function& body_;
  const BodyLayout& layout_;
  Differentiated d_;
  std::vector<size_t> held_;
  Needs needs_;
  std::vector<ValueId> map_;
  Adjoint adjoint_;
};

}  // namespace

std::shared_ptr<const Function> with_residuals(std::shared_ptr<const Function> body,
                                               const BodyLayout& layout, const Builder& outer) {
  const Differentiated d = Differentiation(*body, layout, outer, Backward::Missing::kPassedBy)
                               .run(std::vector<bool>(body->parameters.size(), true),
                                    std::vector<bool>(body->results.size(), true));
  const std::vector<bool> worth = worth_keeping(*body, layout);
  std::vector<size_t> held = holders(*body, layout);
  const Needs needs =
      needs_of(d, [&](ValueId value) { return held[value] != kNone || worth[value]; });
  auto extended = std::make_shared<Function>(*body);
  for (ValueId value = 0; value < body->types.size(); ++value) {
    if (!needs.values[d.here(value)] || held[value] != kNone) continue;
    const bool is_carry = value < layout.carries;
    if (!is_carry && (value < body->parameters.size() || !worth[value])) continue;
    extended->result_names.push_back(
        cat("residual.", extended->results.size() - body->results.size()));
    extended->results.push_back(value);
  }
  if (extended->results.size() == body->results.size()) return body;
  return extended;
}

std::vector<Value> body_gradient(const GradientCall& g) {
  const BodyLayout layout = layout_of(g.node);
  AdjointKey key{.body = g.node.body.get(), .layout = layout, .wanted = g.wanted, .given = {}};
  for (size_t r = 0; r < g.cotangents.size(); ++r)
    key.given.push_back(r >= layout.carries && !g.cotangents[r].empty());
  const Adjoint& adjoint = g.builder.bodies().adjoint(key, g.node.body, [&] {
    Differentiated d = Differentiation(*key.body, layout, g.builder, Backward::Missing::kRefused)
                           .run(key.wanted, key.given);
    return Extraction(*key.body, layout, std::move(d)).run();
  });
  std::vector<Value> cotangents(g.inputs.size());
  if (adjoint.results.empty()) return cotangents;
  const auto zeros = [&](size_t i) { return g.builder.constant(g.inputs[i].type(), 0.0, g.loc); };
  std::vector<Value> operands;
  for (size_t c : adjoint.carried)
    operands.push_back(g.cotangents[c].empty() ? zeros(c) : g.cotangents[c]);
  for (size_t i : adjoint.summed) operands.push_back(zeros(i));
  for (size_t i : adjoint.whole) operands.push_back(g.inputs[i]);
  for (size_t i : adjoint.slices) operands.push_back(g.inputs[i]);
  for (size_t r : adjoint.kept) operands.push_back(g.results[r]);
  for (size_t r : adjoint.given) operands.push_back(g.cotangents[r]);
  Attrs attrs;
  if (layout.repeats) {
    attrs = g.node.attrs;
    attrs.set("carries", static_cast<int64_t>(adjoint.carried.size() + adjoint.summed.size()));
    attrs.set("invariants", static_cast<int64_t>(adjoint.whole.size()));
    attrs.set("reverse", !g.node.attrs.flag("reverse"));
  }
  const std::vector<Value> made =
      g.builder.emit(g.node.op, operands, std::move(attrs), g.loc, adjoint.function);
  for (size_t k = 0; k < made.size(); ++k) cotangents[adjoint.results[k]] = made[k];
  return cotangents;
}

}  // namespace gangway::internal
