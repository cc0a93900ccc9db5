// Rows of softmax, the norms and cross-entropy, and of their adjoints.
#include <limits>

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/local_ops.h"
#include "ir/op_table/rows/vocabulary_parallel.h"

namespace gangway::internal {
namespace {

constexpr std::string_view kNoSecond = "second derivatives need the decomposition, not the kernel";

std::vector<Type> softmax_type(const OpCall& call) {
  need_float(call, 0, "operand");
  need_rank_min(call, 0, "operand", 1);
  GW_NEED(call, call.inputs[0].dims.back() > 0, "the last dimension is empty: got ",
          to_string(call.inputs[0]));
  return {call.inputs[0]};
}

std::vector<Type> softmax_grad_type(const OpCall& call) {
  softmax_type(call);
  need_same(call, 0, "y", 1, "dy");
  return {call.inputs[0]};
}

Values softmax_parts(const DecomposeCall& d) {
  Value x = raise(d.inputs[0], d.loc);
  Value e = exp(x - along_last(reduce_max(x, {-1}, d.loc), x, d.loc));
  return {convert(e / sum_last(e, d.loc), d.inputs[0].dtype(), d.loc)};
}

Values softmax_grad_parts(const DecomposeCall& d) {
  Value y = raise(d.inputs[0], d.loc), dy = raise(d.inputs[1], d.loc);
  return {convert(y * (dy - sum_last(dy * y, d.loc)), d.inputs[0].dtype(), d.loc)};
}

// Zeros stay zeros only with an eps: without one a row of zeros is divided by 0.
bool has_eps(const OpCall& call) { return call.attrs.real("eps") > 0; }

void need_eps(const OpCall& call) {
  double eps = call.attrs.real("eps");
  GW_NEED(call, eps >= 0 && eps < 1, "eps is out of range: expected 0 to 1, got ", eps);
}

// x[..., d], then `rows` tensors [d].
void need_norm(const OpCall& call, size_t rows) {
  need_float(call, 0, "operand");
  need_rank_min(call, 0, "operand", 1);
  need_eps(call);
  const Type& x = call.inputs[0];
  constexpr std::string_view kNames[] = {"operand", "weight", "bias"};
  for (size_t i = 1; i <= rows; ++i) need_type(call, i, kNames[i], {x.dtype, {x.dims.back()}});
}

std::vector<Type> rms_norm_type(const OpCall& call) {
  need_norm(call, 1);
  return {call.inputs[0]};
}

std::vector<Type> rms_norm_grad_type(const OpCall& call) {
  need_norm(call, 1);
  need_same(call, 0, "operand", 2, "dy");
  return {call.inputs[0], call.inputs[1]};
}

std::vector<Type> layer_norm_type(const OpCall& call) {
  need_norm(call, 2);
  return {call.inputs[0]};
}

std::vector<Type> layer_norm_grad_type(const OpCall& call) {
  std::vector<Type> types = rms_norm_grad_type(call);
  types.push_back(call.inputs[1]);
  return types;
}

struct Normalized {
  Value x, scale;  // x normalised, and what it was multiplied with; both [..., d].
};

Normalized normalize(const DecomposeCall& d, bool centre) {
  Value x = raise(d.inputs[0], d.loc);
  if (centre) x = x - mean_last(x, d.loc);
  Value scale = rsqrt(mean_last(square(x, d.loc), d.loc) + d.node.attrs.real("eps"), d.loc);
  return {x * scale, scale};
}

Values rms_norm_parts(const DecomposeCall& d) {
  Value y = normalize(d, false).x * raise(d.inputs[1], d.loc);
  return {convert(y, d.inputs[0].dtype(), d.loc)};
}

Values layer_norm_parts(const DecomposeCall& d) {
  Value y = normalize(d, true).x * raise(d.inputs[1], d.loc) + raise(d.inputs[2], d.loc);
  return {convert(y, d.inputs[0].dtype(), d.loc)};
}

Values norm_grad_parts(const DecomposeCall& d, bool centre) {
  DType dtype = d.inputs[0].dtype();
  Normalized n = normalize(d, centre);
  Value dy = raise(d.inputs[2], d.loc), h = dy * raise(d.inputs[1], d.loc);
  Value dx = h - n.x * mean_last(h * n.x, d.loc);
  if (centre) dx = dx - mean_last(h, d.loc);
  Values results = {convert(n.scale * dx, dtype, d.loc),
                    convert(sum_leading(dy * n.x, d.loc), dtype, d.loc)};
  if (centre) results.push_back(convert(sum_leading(dy, d.loc), dtype, d.loc));
  return results;
}

Values norm_gradient(const GradientCall& g, Op grad) {
  return g.builder.emit(grad, {g.inputs[0], g.inputs[1], g.cotangents[0]}, g.node.attrs, g.loc);
}

// logits[..., classes], labels i32[...] -> loss, log_sum.
std::vector<Type> cross_entropy_type(const OpCall& call) {
  softmax_type(call);
  const Type& logits = call.inputs[0];
  need_type(call, 1, "labels", i32(without_last(logits.dims)));
  need_counts(call, DType::kI32, logits.dims.back(), "the dimension of the classes");
  Type rows{accumulator(logits.dtype), without_last(logits.dims)};
  return {rows, rows};
}

std::vector<Type> cross_entropy_grad_type(const OpCall& call) {
  std::vector<Type> types = cross_entropy_type(call);
  need_type(call, 2, "log_sum", types[0]);
  need_type(call, 3, "dloss", types[0]);
  return {call.inputs[0]};
}

std::vector<Type> cross_entropy_and_grad_type(const OpCall& call) {
  std::vector<Type> types = cross_entropy_type(call);
  need_type(call, 2, "dloss", types[0]);
  types.push_back(call.inputs[0]);
  return types;
}

// True where a class is the row's label.
Value hits(Value logits, Value labels, Loc loc) {
  Value position = iota(logits.builder(), logits.type().with(DType::kI32), logits.rank() - 1, loc);
  return eq(position, along_last(labels, logits, loc));
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// True where a row's label is a class; another one makes the row NaN.
Value counted(Value logits, Value labels, Loc loc) {
  return logical_and(ge(labels, 0), lt(labels, logits.dim(-1)), loc);
}

// Subtracts the largest logit of each row, so that an offset that all logits share costs no digits.
Value below_largest(Value x, Loc loc) { return x - along_last(reduce_max(x, {-1}, loc), x, loc); }

Values cross_entropy_parts(const DecomposeCall& d) {
  Value x = raise(d.inputs[0], d.loc), labels = d.inputs[1];
  Value shifted = below_largest(x, d.loc);
  Value log_sum = log(sum(exp(shifted), {-1}, d.loc));
  Value picked =
      sum(where(hits(x, labels, d.loc), shifted, constant_like(x, 0, d.loc)), {-1}, d.loc);
  return {where(counted(x, labels, d.loc), log_sum - picked, kNaN), log_sum};
}

Value softmax_of(Value x, Value log_sum, Loc loc) {
  return exp(below_largest(x, loc) - along_last(log_sum, x, loc));
}

Value dlogits_of(Value logits, Value labels, Value log_sum, Value dloss, Loc loc) {
  Value x = raise(logits, loc);
  Value p = softmax_of(x, log_sum, loc);
  Value by = where(counted(x, labels, loc), dloss, kNaN);
  Value hit = convert(hits(x, labels, loc), x.dtype(), loc);
  return convert((p - hit) * along_last(by, x, loc), logits.dtype(), loc);
}

Values cross_entropy_grad_parts(const DecomposeCall& d) {
  return {dlogits_of(d.inputs[0], d.inputs[1], d.inputs[2], d.inputs[3], d.loc)};
}

Values cross_entropy_and_grad_parts(const DecomposeCall& d) {
  Values results = cross_entropy_parts(d);
  results.push_back(dlogits_of(d.inputs[0], d.inputs[1], results[1], d.inputs[2], d.loc));
  return results;
}

// Gradient of log_sum: the softmax of each logit, less the slope that subtracting the largest logit
// adds, which equal largest logits share.
Value log_sum_gradient(Value logits, Value log_sum, Value ct, Loc loc) {
  Value x = raise(logits, loc);
  Value largest = convert(eq(below_largest(x, loc), 0), x.dtype(), loc);
  Value share = largest / along_last(sum(largest, {-1}, loc), x, loc);
  Value slope = softmax_of(x, log_sum, loc) - share;
  return convert(slope * along_last(ct, x, loc), logits.dtype(), loc);
}

Values cross_entropy_gradient(const GradientCall& g) {
  Value logits = g.inputs[0], dlogits;
  if (!g.cotangents[0].empty()) {
    dlogits = g.builder.emit1(Op::cross_entropy_grad,
                              {logits, g.inputs[1], g.results[1], g.cotangents[0]}, {}, g.loc);
  }
  if (!g.cotangents[1].empty()) {
    Value more = log_sum_gradient(logits, g.results[1], g.cotangents[1], g.loc);
    dlogits = dlogits.empty() ? more : dlogits + more;
  }
  return {dlogits, Value()};
}

std::vector<OpRow> softmax_rows() {
  return {
      composite({.op = Op::softmax,
                 .name = "softmax",
                 .type_rule = softmax_type,
                 .factors = last_whole_factors,
                 .gradient =
                     [](const GradientCall& g) {
                       return g.builder.emit(Op::softmax_grad, {g.results[0], g.cotangents[0]}, {},
                                             g.loc);
                     },
                 .decompose = softmax_parts,
                 .cost = per_result<12>,
                 .doc = "exp(x) / sum(exp(x)) over the last dimension."}),
      composite({.op = Op::softmax_grad,
                 .name = "softmax_grad",
                 .inputs_min = 2,
                 .inputs_max = 2,
                 .type_rule = softmax_grad_type,
                 .factors = last_whole_factors,
                 .keeps_zero = true,
                 .no_gradient = kNoSecond,
                 .decompose = softmax_grad_parts,
                 .cost = per_result<4>,
                 .doc = "(y, dy): y * (dy - sum(dy * y)), the adjoint of softmax."}),
  };
}

std::vector<OpRow> loss_rows() {
  return {
      composite(
          {.op = Op::cross_entropy,
           .name = "cross_entropy",
           .inputs_min = 2,
           .inputs_max = 2,
           .results = 2,
           .type_rule = cross_entropy_type,
           .factors =
               [](const OpCall& c) {
                 return distributed(einsum_factors(c, "...c, ... -> ..., ..."), 'c',
                                    kVocabularyParallel);
               },
           .gradient = cross_entropy_gradient,
           .decompose = cross_entropy_parts,
           .cost = per_input<12>,
           .doc = "(logits[..., classes], labels i32[...]): the loss log_sum - (logits[label] - "
                  "max(logits)) in nats and log_sum, which is log(sum(exp(logits - max(logits)))), "
                  "f32[...] (f64 for f64). A label that is no class gives NaN in loss and "
                  "gradient: it must not train.",
           .distributed_ops = {vocabulary_cross_entropy()}}),
      composite({.op = Op::cross_entropy_grad,
                 .name = "cross_entropy_grad",
                 .inputs_min = 4,
                 .inputs_max = 4,
                 .type_rule = cross_entropy_grad_type,
                 .factors =
                     [](const OpCall& c) {
                       return distributed(einsum_factors(c, "...c, ..., ..., ... -> ...c"), 'c',
                                          kVocabularyParallel);
                     },
                 .no_gradient = kNoSecond,
                 .decompose = cross_entropy_grad_parts,
                 .cost = per_input<12>,
                 .doc =
                     "(logits, labels, log_sum, dloss): (softmax - one_hot(label)) * dloss, where "
                     "softmax is exp(logits - max(logits) - log_sum).",
                 .distributed_ops = {vocabulary_cross_entropy_grad()}}),
      composite({.op = Op::cross_entropy_and_grad,
                 .name = "cross_entropy_and_grad",
                 .inputs_min = 3,
                 .inputs_max = 3,
                 .results = 3,
                 .type_rule = cross_entropy_and_grad_type,
                 .factors =
                     [](const OpCall& c) {
                       return einsum_factors(c, "...c, ..., ... -> ..., ..., ...c; whole c");
                     },
                 .no_gradient = kNoSecond,
                 .decompose = cross_entropy_and_grad_parts,
                 .cost = per_input<24>,
                 .doc = "(logits, labels, dloss): the loss, log_sum and the gradient, as "
                        "cross_entropy and cross_entropy_grad give them. Compiling makes it of the "
                        "two, so that a device reads and writes each logit once."}),
  };
}

}  // namespace

std::vector<OpRow> norm_rows() {
  std::vector<OpRow> rows = softmax_rows();
  for (OpRow& row : loss_rows()) rows.push_back(std::move(row));
  const AttrSpec eps{"eps", AttrKind::kDouble, 1e-5, "added to the mean square or variance"};
  auto add = [&](OpRow row, int inputs) {
    row.inputs_min = row.inputs_max = inputs;
    row.attrs = {eps};
    row.cost = per_input<8>;
    rows.push_back(composite(std::move(row)));
  };
  add({.op = Op::rms_norm,
       .name = "rms_norm",
       .type_rule = rms_norm_type,
       .factors = [](const OpCall& c) { return einsum_factors(c, "...d, d -> ...d; whole d"); },
       .keeps_zero = true,
       .keeps_zero_when = has_eps,
       .gradient = [](const GradientCall& g) { return norm_gradient(g, Op::rms_norm_grad); },
       .decompose = rms_norm_parts,
       .doc = "(x[..., d], weight[d]): x / sqrt(mean(x^2) + eps) * weight."},
      2);
  add({.op = Op::rms_norm_grad,
       .name = "rms_norm_grad",
       .results = 2,
       .type_rule = rms_norm_grad_type,
       .factors =
           [](const OpCall& c) {
             return einsum_factors(c, "...d, d, ...d -> ...d, d; reduce ...; whole d");
           },
       .keeps_zero = true,
       .keeps_zero_when = has_eps,
       .no_gradient = kNoSecond,
       .decompose = [](const DecomposeCall& d) { return norm_grad_parts(d, false); },
       .doc = "(x, weight, dy): the adjoints of x and weight."},
      3);
  add({.op = Op::layer_norm,
       .name = "layer_norm",
       .type_rule = layer_norm_type,
       .factors = [](const OpCall& c) { return einsum_factors(c, "...d, d, d -> ...d; whole d"); },
       .gradient = [](const GradientCall& g) { return norm_gradient(g, Op::layer_norm_grad); },
       .decompose = layer_norm_parts,
       .doc =
           "(x[..., d], weight[d], bias[d]): (x - mean) / sqrt(variance + eps) * weight + bias."},
      3);
  add({.op = Op::layer_norm_grad,
       .name = "layer_norm_grad",
       .results = 3,
       .type_rule = layer_norm_grad_type,
       .factors =
           [](const OpCall& c) {
             return einsum_factors(c, "...d, d, ...d -> ...d, d, d; reduce ...; whole d");
           },
       .keeps_zero = true,
       .keeps_zero_when = has_eps,
       .no_gradient = kNoSecond,
       .decompose = [](const DecomposeCall& d) { return norm_grad_parts(d, true); },
       .doc = "(x, weight, dy): the adjoints of x, weight and bias."},
      3);
  return rows;
}

}  // namespace gangway::internal
