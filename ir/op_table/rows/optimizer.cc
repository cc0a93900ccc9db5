// Rows of the optimizer's ops: the AdamW step and the sum of squares that clipping needs.
#include <cmath>

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/composite.h"

namespace gangway::internal {
namespace {

std::vector<Type> sum_squares_type(const OpCall& call) {
  need_float(call, 0, "operand");
  return {{accumulator(call.inputs[0].dtype), {}}};
}

std::vector<Type> adamw_type(const OpCall& call) {
  const Type &p = call.inputs[0], &g = call.inputs[3];
  GW_NEED(call, p.dtype == DType::kF32 || p.dtype == DType::kF64, "p must be f32 or f64: got ",
          to_string(p));
  need_same(call, 0, "p", 1, "m");
  need_same(call, 0, "p", 2, "v");
  need_float(call, 3, "g");
  GW_NEED(call, g.dims == p.dims, "shapes differ: p is ", to_string(p), ", g is ", to_string(g));
  constexpr std::string_view kNames[] = {"lr", "correction1", "correction2", "grad_scale"};
  for (size_t i = 0; i < 4; ++i) need_type(call, 4 + i, kNames[i], {p.dtype, {}});
  for (std::string_view name : {"beta1", "beta2", "eps", "weight_decay"}) {
    double value = call.attrs.real(name);
    GW_NEED(call, std::isfinite(value) && value >= 0, name, " must be at least 0: got ", value);
  }
  return {p, p, p};
}

Values adamw_parts(const DecomposeCall& d) {
  Value p = d.inputs[0], lr = d.inputs[4], c1 = d.inputs[5], c2 = d.inputs[6];
  double beta1 = d.node.attrs.real("beta1"), beta2 = d.node.attrs.real("beta2");
  double eps = d.node.attrs.real("eps"), decay = d.node.attrs.real("weight_decay");
  Value g = convert(d.inputs[3], p.dtype(), d.loc) * d.inputs[7];
  Value m = d.inputs[1] * beta1 + g * (1 - beta1);
  Value v = d.inputs[2] * beta2 + g * g * (1 - beta2);
  Value step = m / c1 / (sqrt(v / c2, d.loc) + eps) + p * decay;
  return {p - lr * step, m, v};
}

}  // namespace

std::vector<OpRow> optimizer_rows() {
  return {
      composite(
          {.op = Op::sum_squares,
           .name = "sum_squares",
           .type_rule = sum_squares_type,
           .factors = [](const OpCall& c) { return einsum_factors(c, "... -> ; reduce ..."); },
           .keeps_zero = true,
           .gradient =
               [](const GradientCall& g) {
                 Value ct = convert(g.cotangents[0], g.inputs[0].dtype(), g.loc);
                 return Values{g.inputs[0] * (ct * 2)};
               },
           .decompose =
               [](const DecomposeCall& d) {
                 return Values{sum(square(raise(d.inputs[0], d.loc), d.loc), {}, d.loc)};
               },
           .cost = per_input<2>,
           .doc = "The sum of all squares, f32[] (f64[] of f64), in a fixed order."}),
      composite({.op = Op::adamw,
                 .name = "adamw",
                 .inputs_min = 8,
                 .inputs_max = 8,
                 .results = 3,
                 .attrs = {{"beta1", AttrKind::kDouble, 0.9, "decay of m"},
                           {"beta2", AttrKind::kDouble, 0.95, "decay of v"},
                           {"eps", AttrKind::kDouble, 1e-8, "added to the root"},
                           {"weight_decay", AttrKind::kDouble, 0.0, "decoupled"}},
                 .type_rule = adamw_type,
                 .factors =
                     [](const OpCall& c) {
                       return einsum_factors(c, "..., ..., ..., ..., , , , -> ..., ..., ...");
                     },
                 .keeps_zero = true,
                 .keeps_zero_when = [](const OpCall& c) { return c.attrs.real("eps") > 0; },
                 .in_place = 3,  // p, m and v.
                 .no_gradient = "an optimizer step is not differentiated",
                 .decompose = adamw_parts,
                 .cost = per_result<16>,
                 .doc = "(p, m, v, g, lr, correction1, correction2, grad_scale): g' = g * "
                        "grad_scale; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2; "
                        "p = p - lr ((m / correction1) / (sqrt(v / correction2) + eps) + "
                        "weight_decay p)."}),
  };
}

}  // namespace gangway::internal
