#include "programs/optim/adamw.h"

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

// 1 - beta^step
Value correction(Value step, double beta, Loc loc) {
  return Operand(1.0, loc) - Operand(exp(step * Operand(std::log(beta), loc), loc), loc);
}

}  // namespace

AdamwResult adamw(ProgramBuilder& b, const Tree& params, const Tree& grads,
                  const AdamwConfig& config, Loc loc) {
  std::vector<Leaf> parameters = leaves(params), gradients = leaves(grads);
  GW_REQUIRE(!parameters.empty() && parameters.size() == gradients.size(),
             "adamw: ", parameters.size(), " parameters, but ", gradients.size(), " gradients");
  const DType dtype = parameters[0].value.dtype();
  Value lr = b.input("lr", {dtype, {}}, {}, loc);
  Value step = b.input("step", {dtype, {}}, {}, loc);

  Value squares;
  for (const Leaf& gradient : gradients) {
    Value term = convert(sum_squares(gradient.value, loc), dtype, loc);
    squares = squares ? Operand(squares, loc) + Operand(term, loc) : term;
  }
  Value norm = sqrt(squares, loc);
  Value scale = constant_like(norm, 1.0, loc);
  if (config.clip_norm > 0) {
    scale = minimum(Operand(1.0, loc), Operand(Operand(config.clip_norm, loc) / norm, loc));
  }
  AdamwScalars scalars{.lr = lr,
                       .correction1 = correction(step, config.beta1, loc),
                       .correction2 = correction(step, config.beta2, loc),
                       .grad_scale = scale};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, p] = parameters[i];
    AdamwState state{.p = p,
                     .m = b.state("adamw.m." + name, zeros(p.type()), {}, loc),
                     .v = b.state("adamw.v." + name, zeros(p.type()), {}, loc)};
    AdamwOptions options{.beta1 = config.beta1,
                         .beta2 = config.beta2,
                         .eps = config.eps,
                         .weight_decay = p.rank() >= 2 ? config.weight_decay : 0.0};
    AdamwState next = adamw(state, gradients[i].value, scalars, options, loc);
    b.update(state.p, next.p, loc);
    b.update(state.m, next.m, loc);
    b.update(state.v, next.v, loc);
  }
  return {.grad_norm = norm, .rate = Operand(lr, loc) * Operand(norm, loc)};
}

}  // namespace gangway::programs
