#include "programs/models/feed_forward.h"

#include "ir/build/ops.h"

namespace gangway::programs {

Value hidden_units(const Tree& p, const ActivationFunction& activation,
                   const std::function<Value(const char*)>& project) {
  const Value up = project("up");
  return p.contains("gate") ? activation(project("gate")) * up : activation(up);
}

Value feed_forward(const Tree& p, Value x, const ActivationFunction& activation,
                   const ActivationRules& rules, Loc loc) {
  const LocScope at(loc);
  x = placed(rules, "ffn.in", x);
  const Value hidden = hidden_units(
      p, activation, [&](const char* name) { return dot(x, convert(p[name], x.dtype())); });
  const Value out = dot(placed(rules, "ffn.hidden", hidden), convert(p["down"], x.dtype()));
  return placed(rules, "ffn.out", out);
}

}  // namespace gangway::programs
