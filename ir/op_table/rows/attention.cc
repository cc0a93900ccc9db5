// Rows of multi-head attention, its adjoint, and its one-query form against a cache.
#include <cmath>

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/composite.h"

namespace gangway::internal {
namespace {

constexpr double kMasked = -1e30;  // exp() of it is 0 in every element type.

// [batch, seq, dim] with heads dividing dim.
void need_heads(const OpCall& call) {
  need_float(call, 0, "q");
  need_rank(call, 0, "q", 3);
  int64_t dim = call.inputs[0].dims[2], heads = call.attrs.integer("heads");
  need(call, heads > 0 && dim % heads == 0 && dim > 0, "heads must divide the last dimension of ",
       to_string(call.inputs[0]), ": got ", heads);
  double scale = call.attrs.real("scale");
  need(call, std::isfinite(scale) && scale >= 0, "scale must be at least 0: got ", scale);
}

Type lse_type(const OpCall& call) {
  const Type& q = call.inputs[0];
  return {accumulator(q.dtype), {q.dims[0], call.attrs.integer("heads"), q.dims[1]}};
}

std::vector<Type> attention_type(const OpCall& call) {
  need_heads(call);
  need_same(call, 0, "q", 1, "k");
  need_same(call, 0, "q", 2, "v");
  return {call.inputs[0], lse_type(call)};
}

std::vector<Type> attention_grad_type(const OpCall& call) {
  attention_type(call);
  need_same(call, 0, "q", 3, "out");
  need_type(call, 4, "lse", lse_type(call));
  need_same(call, 0, "q", 5, "dout");
  return {call.inputs[0], call.inputs[0], call.inputs[0]};
}

std::vector<Type> attention_decode_type(const OpCall& call) {
  need_heads(call);
  need_same(call, 1, "k", 2, "v");
  const Type &q = call.inputs[0], &k = call.inputs[1];
  bool ok = q.dims[1] == 1 && k.rank() == 3 && k.dtype == q.dtype && k.dims[0] == q.dims[0] &&
            k.dims[2] == q.dims[2];
  need(call, ok, "operands do not fit: expected q[batch, 1, dim] and k, v[batch, seq, dim], got q ",
       to_string(q), ", k ", to_string(k));
  need_type(call, 3, "length", i32());
  return {q};
}

// `h` is the outer part of the model dimension: whole heads.
Factors by_heads(const OpCall& call, std::string_view spec) {
  Factors factors = einsum_factors(call, spec);
  for (Factor& factor : factors) {
    if (factor.name == 'h') factor.size = call.attrs.integer("heads");
  }
  return factors;
}

struct Heads {
  const Node& node;
  Loc loc;
  int64_t heads() const { return node.attrs.integer("heads"); }
  // 1 / sqrt(dim of a head), unless given.
  double scale(Value q) const {
    double given = node.attrs.real("scale");
    const int64_t head_dim = q.dim(2) / heads();
    return given > 0 ? given : 1 / std::sqrt(static_cast<double>(head_dim));
  }
  // [batch, seq, dim] -> f32[batch, heads, seq, dim / heads]
  Value split(Value x) const {
    Dims dims = {x.dim(0), x.dim(1), heads(), x.dim(2) / heads()};
    return transpose(reshape(raise(x, loc), dims, loc), {0, 2, 1, 3}, loc);
  }
  Value merge(Value x, const Type& type) const {
    return convert(reshape(transpose(x, {0, 2, 1, 3}, loc), type.dims, loc), type.dtype, loc);
  }
  // a[b, h, i, c] x b[b, h, j, c] -> [b, h, i, j]
  Value rows_by_rows(Value a, Value b) const {
    return dot_general(a, b, {{0, 1}, {0, 1}, {3}, {3}}, loc);
  }
  // a[b, h, i, j] x b[b, h, j, c] -> [b, h, i, c]
  Value apply(Value a, Value b) const { return dot_general(a, b, {{0, 1}, {0, 1}, {3}, {2}}, loc); }
  Value apply_transposed(Value a, Value b) const {
    return dot_general(a, b, {{0, 1}, {0, 1}, {2}, {2}}, loc);
  }
  // Scaled scores [b, h, i, j], masked above the diagonal when causal.
  Value scores(Value q, Value k, double by) const {
    Value s = rows_by_rows(q, k) * by;
    if (!node.attrs.flag("causal")) return s;
    Type index = s.type().with(DType::kI32);
    Value seen = ge(iota(s.builder(), index, 2, loc), iota(s.builder(), index, 3, loc));
    return where(seen, s, kMasked);
  }
};

Values attention_parts(const DecomposeCall& d) {
  Heads h{d.node, d.loc};
  Value q = h.split(d.inputs[0]), k = h.split(d.inputs[1]), v = h.split(d.inputs[2]);
  Value s = h.scores(q, k, h.scale(d.inputs[0]));
  Value top = reduce_max(s, {-1}, d.loc);
  Value e = exp(s - along_last(top, s, d.loc));
  Value total = sum(e, {-1}, d.loc);
  Value out = h.apply(e / along_last(total, e, d.loc), v);
  return {h.merge(out, d.inputs[0].type()), log(total) + top};
}

Values attention_grad_parts(const DecomposeCall& d) {
  Heads h{d.node, d.loc};
  const Type& type = d.inputs[0].type();
  Value q = h.split(d.inputs[0]), k = h.split(d.inputs[1]), v = h.split(d.inputs[2]);
  Value out = h.split(d.inputs[3]), dout = h.split(d.inputs[5]);
  double scale = h.scale(d.inputs[0]);
  Value s = h.scores(q, k, scale);
  Value p = exp(s - along_last(d.inputs[4], s, d.loc));
  Value delta = along_last(sum(out * dout, {-1}, d.loc), s, d.loc);
  Value ds = p * (h.rows_by_rows(dout, v) - delta) * scale;
  return {h.merge(h.apply(ds, k), type), h.merge(h.apply_transposed(ds, q), type),
          h.merge(h.apply_transposed(p, dout), type)};
}

Values attention_decode_parts(const DecomposeCall& d) {
  Heads h{d.node, d.loc};
  Value q = h.split(d.inputs[0]), k = h.split(d.inputs[1]), v = h.split(d.inputs[2]);
  Value s = h.rows_by_rows(q, k) * h.scale(d.inputs[0]);
  Value valid = lt(iota(d.builder, s.type().with(DType::kI32), 3, d.loc), d.inputs[3]);
  Value masked = where(valid, s, kMasked);
  Value top = along_last(reduce_max(masked, {-1}, d.loc), s, d.loc);
  Value e = where(valid, exp(masked - top), 0);
  Value total = maximum(sum_last(e, d.loc), 1e-30);  // No valid position at all: the result is 0.
  return {h.merge(h.apply(e / total, v), d.inputs[0].type())};
}

Values attention_gradient(const GradientCall& g) {
  if (g.cotangents[1]) {
    throw Error(ErrorKind::kUnimplemented,
                "attention: the gradient through its second result, lse, is not offered");
  }
  return g.builder.emit(
      Op::attention_grad,
      {g.inputs[0], g.inputs[1], g.inputs[2], g.results[0], g.results[1], g.cotangents[0]},
      g.node.attrs, g.loc);
}

// `products` matrix products of seq x keys x dim.
Cost attention_cost(const OpCall& call, double products) {
  const Dims &q = call.inputs[0].dims, &k = call.inputs[1].dims;
  double pairs = static_cast<double>(q[0] * q[1]) * static_cast<double>(k[1]);
  const AttrValue* causal = call.attrs.find("causal");
  if (causal != nullptr && std::get<bool>(*causal)) pairs /= 2;
  return {products * 2 * pairs * static_cast<double>(q[2]), bytes_moved(call)};
}

std::vector<AttrSpec> head_attrs() {
  return {{"heads", AttrKind::kInt, {}, "how many", AttrRole::kHeads},
          {"scale", AttrKind::kDouble, 0.0, "of the scores; 0: 1 / sqrt(dim / heads)"}};
}

std::vector<AttrSpec> causal_attrs() {
  std::vector<AttrSpec> attrs = head_attrs();
  attrs.push_back({"causal", AttrKind::kBool, false, "a query sees no later position"});
  return attrs;
}

}  // namespace

std::vector<OpRow> attention_rows() {
  return {
      composite(
          {.op = Op::attention,
           .name = "attention",
           .inputs_min = 3,
           .inputs_max = 3,
           .results = 2,
           .attrs = causal_attrs(),
           .type_rule = attention_type,
           .factors =
               [](const OpCall& c) { return by_heads(c, "bsh, bsh, bsh -> bsh, bhs; whole s"); },
           .gradient = attention_gradient,
           .decompose = attention_parts,
           .cost = [](const OpCall& c) { return attention_cost(c, 2); },
           .doc =
               "(q, k, v [batch, seq, dim]): softmax(q k^T * scale) v in each head, and lse, the "
               "logsumexp of each row of scores, f32[batch, heads, seq] (f64 for f64)."}),
      composite({.op = Op::attention_grad,
                 .name = "attention_grad",
                 .inputs_min = 6,
                 .inputs_max = 6,
                 .results = 3,
                 .attrs = causal_attrs(),
                 .type_rule = attention_grad_type,
                 .factors =
                     [](const OpCall& c) {
                       return by_heads(c, "bsh, bsh, bsh, bsh, bhs, bsh -> bsh, bsh, bsh; whole s");
                     },
                 .no_gradient = "second derivatives need the decomposition, not the kernel",
                 .decompose = attention_grad_parts,
                 .cost = [](const OpCall& c) { return attention_cost(c, 5); },
                 .doc = "(q, k, v, out, lse, dout): dq, dk, dv."}),
      composite({.op = Op::attention_decode,
                 .name = "attention_decode",
                 .inputs_min = 4,
                 .inputs_max = 4,
                 .attrs = head_attrs(),
                 .type_rule = attention_decode_type,
                 .factors =
                     [](const OpCall& c) { return by_heads(c, "bqh, bsh, bsh, -> bqh; whole qs"); },
                 .no_gradient = "it serves generation, which is not differentiated",
                 .decompose = attention_decode_parts,
                 .cost = [](const OpCall& c) { return attention_cost(c, 2); },
                 .doc = "(q[batch, 1, dim], k, v[batch, seq, dim], length i32[]): attention of one "
                        "query to the first `length` positions; 0 where there are none."}),
  };
}

}  // namespace gangway::internal
