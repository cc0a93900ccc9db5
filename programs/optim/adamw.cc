#include "programs/optim/adamw.h"

#include <algorithm>
#include <cmath>

#include "ir/build/ops.h"

namespace gangway::programs {
namespace {

struct Leaf {
  std::string name;
  Value value;
};

std::vector<Leaf> leaves(const Tree& tree) {
  std::vector<Leaf> all;
  tree.for_each([&](const std::string& name, const Value& value) { all.push_back({name, value}); });
  return all;
}

// Returns the step, or NaN if it is below 1: the corrections of a step 0 would divide by 0. The
// scope names the step in the error of a run that a gate stops.
Value from_one_on(Value step, const std::string& name) {
  const Builder::Scope in(step.builder(), cat(name, ", which must be at least 1"));
  return step + sqrt(step - 1.0) * 0.0;
}

// 1 - beta^step, exact to the last digits even if that is nearly 0.
Value correction(Value step, double beta) { return -expm1(step * std::log(beta)); }

// Returns the rules of the parameter itself, and after them those of `moments` that match its name.
std::vector<PlacementRule> rules_of_moments(ProgramBuilder& b, const Leaf& parameter,
                                            const std::vector<PlacementRule>& moments) {
  std::vector<PlacementRule> rules = b.like(parameter.value);
  for (const PlacementRule& rule : moments) {
    if (!matches(rule.pattern, parameter.name)) continue;
    auto same = std::ranges::find(rules, rule.priority, &PlacementRule::priority);
    if (same == rules.end()) same = rules.insert(rules.end(), {"*", {}, rule.priority});
    same->placements.insert(same->placements.end(), rule.placements.begin(), rule.placements.end());
  }
  return rules;
}

}  // namespace

AdamwResult adamw(ProgramBuilder& b, const Tree& params, const Tree& grads,
                  const AdamwConfig& config, const std::vector<PlacementRule>& moments, Loc loc) {
  const LocScope at(loc);
  std::vector<Leaf> parameters = leaves(params), gradients = leaves(grads);
  GW_REQUIRE(!parameters.empty() && parameters.size() == gradients.size(),
             "adamw: ", parameters.size(), " parameters, but ", gradients.size(), " gradients");
  const DType dtype = parameters[0].value.dtype();
  for (const Leaf& parameter : parameters) {
    GW_REQUIRE(parameter.value.dtype() == dtype, "adamw: expected parameters of one type, got \"",
               parameters[0].name, "\" of ", to_string(dtype), " and \"", parameter.name, "\" of ",
               to_string(parameter.value.dtype()),
               ": convert one of them, or call adamw for each type with trees of its own");
  }
  const Type scalar{dtype, {}};
  Value lr = config.rate ? Value() : b.input(config.lr_input, scalar);
  Value step = b.input(config.step_input, scalar);

  const Builder::Scope in(parameters[0].value.builder(), "adamw");
  if (config.rate) lr = config.rate(step);
  GW_REQUIRE(lr.type() == scalar, "adamw: expected a learning rate of ", to_string(scalar),
             ", as the parameters are, got ", to_string(lr.type()));
  step = from_one_on(step, config.step_input);
  Value squares;
  for (const Leaf& gradient : gradients) {
    Value term = convert(sum_squares(gradient.value), dtype);
    squares = squares.empty() ? term : squares + term;
  }
  Value norm = sqrt(squares);
  Value scale = constant_like(norm, 1.0);
  if (config.clip_norm > 0) {
    scale = minimum(1.0, config.clip_norm / norm);
  }
  // A gradient that is not finite makes the scale not finite: committed_values() of ir/plan counts
  // on that.
  scale = scale + norm * 0.0;
  AdamwScalars scalars{.lr = lr,
                       .correction1 = correction(step, config.beta1),
                       .correction2 = correction(step, config.beta2),
                       .grad_scale = scale};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value p = parameters[i].value;
    const StateSpec moment = zeros_like(b.spec_of(p));
    const std::vector<PlacementRule> rules = rules_of_moments(b, parameters[i], moments);
    const std::string whole_name = b.name_of(p);
    AdamwState state{.p = p,
                     .m = b.state("adamw.m." + whole_name, StateTree(moment), rules),
                     .v = b.state("adamw.v." + whole_name, StateTree(moment), rules)};
    AdamwOptions options{
        .beta1 = config.beta1,
        .beta2 = config.beta2,
        .eps = config.eps,
        .weight_decay = layer_type(moment).rank() >= 2 ? config.weight_decay : 0.0};
    AdamwState next = adamw(state, gradients[i].value, scalars, options);
    b.update(state.p, next.p);
    b.update(state.m, next.m);
    b.update(state.v, next.v);
  }
  return {.grad_norm = norm};
}

}  // namespace gangway::programs
