// Rows of multi-head attention, its adjoint, and its one-query form against a cache.
//
// Attention of some queries to some keys is a part of attention of all to all: run-time starts say
// where in the sequence both lie, and parts are merged by their logsumexp (ring_attention.h).
//
// Packed attention has q, k and v side by side in one tensor, as one product of what they are
// computed from with their joined weights gives them. They have a dimension of their own in front
// of the heads, so that cutting the tensor by heads cuts all three alike.
#include <cmath>

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/local_ops.h"
#include "ir/op_table/rows/ring_attention.h"

namespace gangway::internal {
namespace {

constexpr double kMasked = -1e30;  // exp() of it is 0 in every element type.

constexpr int64_t kPacked = 3;  // Queries, keys and values.

// [batch, seq, dim] with heads dividing dim, or [batch, seq, 3, dim].
void need_heads(const OpCall& call, std::string_view name = "q", int rank = 3) {
  need_float(call, 0, name);
  need_rank(call, 0, name, rank);
  const int64_t dim = call.inputs[0].dims.back(), heads = call.attrs.integer("heads");
  GW_NEED(call, heads > 0 && dim % heads == 0 && dim > 0,
          "heads must divide the last dimension of ", to_string(call.inputs[0]), ": got ", heads);
  const double scale = call.attrs.real("scale");
  GW_NEED(call, std::isfinite(scale) && scale >= 0, "scale must be at least 0: got ", scale);
}

Type lse_type(const OpCall& call) {
  const Type& q = call.inputs[0];
  return {accumulator(q.dtype), {q.dims[0], call.attrs.integer("heads"), q.dims[1]}};
}

// qkv[batch, seq, 3, dim] -> out[batch, seq, dim], lse.
std::vector<Type> packed_attention_type(const OpCall& call) {
  need_heads(call, "qkv", 4);
  Type out = call.inputs[0];
  GW_NEED(call, out.dims[2] == kPacked, "queries, keys and values lie side by side: expected ",
          "qkv[batch, seq, 3, dim], got ", to_string(out));
  out.dims.erase(out.dims.begin() + 2);
  return {out, lse_type(call)};
}

std::vector<Type> packed_attention_grad_type(const OpCall& call) {
  const std::vector<Type> forward = packed_attention_type(call);
  need_type(call, 1, "out", forward[0]);
  need_type(call, 2, "lse", forward[1]);
  need_type(call, 3, "dout", forward[0]);
  return {call.inputs[0]};
}

// q[batch, queries, dim], k and v [batch, keys, dim], then operands of the adjoint, and behind
// `fixed` operands perhaps the starts of queries and keys.
void need_attention(const OpCall& call, size_t fixed) {
  need_heads(call);
  const Type& q = call.inputs[0];
  need_rank(call, 1, "k", 3);
  Type k = q;
  k.dims[1] = call.inputs[1].dims[1];
  need_type(call, 1, "k", k);
  need_same(call, 1, "k", 2, "v");
  if (call.inputs.size() == fixed) return;
  GW_NEED(call, call.inputs.size() == fixed + 2, "q_start and k_start come together: expected ",
          fixed, " or ", fixed + 2, " operands, got ", call.inputs.size());
  need_type(call, fixed, "q_start", i32());
  need_type(call, fixed + 1, "k_start", i32());
}

std::vector<Type> attention_type(const OpCall& call) {
  need_attention(call, 3);
  return {call.inputs[0], lse_type(call)};
}

std::vector<Type> attention_grad_type(const OpCall& call) {
  need_attention(call, 6);
  need_same(call, 0, "q", 3, "out");
  need_type(call, 4, "lse", lse_type(call));
  need_same(call, 0, "q", 5, "dout");
  return {call.inputs[0], call.inputs[1], call.inputs[1]};
}

std::vector<Type> attention_decode_type(const OpCall& call) {
  need_heads(call);
  need_same(call, 1, "k", 2, "v");
  const Type &q = call.inputs[0], &k = call.inputs[1];
  bool ok = q.dims[1] == 1 && k.rank() == 3 && k.dtype == q.dtype && k.dims[0] == q.dims[0] &&
            k.dims[2] == q.dims[2];
  GW_NEED(call, ok,
          "operands do not fit: expected q[batch, 1, dim] and k, v[batch, seq, dim], got q ",
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

Factors packed_attention_factors(const OpCall& call) {
  return distributed(
      by_heads(call, call.op == Op::packed_attention ? "bsph -> bsh, bhs; whole p"
                                                     : "bsph, bsh, bhs, bsh -> bsph; whole p"),
      's', kRingAttention);
}

// Whole sequences of one length can be cut; a part of attention can't again. `q`, `lse`, `k`: the
// terms of what has a row for each query, or for each key.
Factors attention_factors(const OpCall& call) {
  const bool is_grad = call.op == Op::attention_grad;
  const bool has_starts = call.inputs.size() > (is_grad ? 6 : 3);
  if (has_starts || call.inputs[0].dims[1] != call.inputs[1].dims[1]) {
    const std::string spec =
        cat(is_grad ? "bqh, bkh, bkh, bqh, bhq, bqh" : "bqh, bkh, bkh", has_starts ? ", , " : "",
            is_grad ? "-> bqh, bkh, bkh" : "-> bqh, bhq", "; whole qk");
    return by_heads(call, spec);
  }
  return distributed(by_heads(call, is_grad ? "bsh, bsh, bsh, bsh, bhs, bsh -> bsh, bsh, bsh"
                                            : "bsh, bsh, bsh -> bsh, bhs"),
                     's', kRingAttention);
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
  // Scaled scores [b, h, i, j].
  Value scores(Value q, Value k, double by) const { return rows_by_rows(q, k) * by; }
  // Mask of the keys that a query sees; empty: all. `starts`: first rows of queries and keys, or
  // none.
  Value seen(Value s, const Values& starts) const {
    if (!node.attrs.flag("causal")) return {};
    const Type index = s.type().with(DType::kI32);
    Value query = iota(s.builder(), index, 2, loc), key = iota(s.builder(), index, 3, loc);
    if (starts.empty()) return ge(query + (s.dim(3) - s.dim(2)), key);
    return ge(query + starts[0], key + starts[1]);
  }
};

Value only(Value seen, Value x, double otherwise) {
  return seen.empty() ? x : where(seen, x, otherwise);
}

Values behind(const Values& inputs, size_t fixed) {
  return {inputs.begin() + static_cast<std::ptrdiff_t>(std::min(fixed, inputs.size())),
          inputs.end()};
}

Values attention_parts(const DecomposeCall& d) {
  Heads h{d.node, d.loc};
  Value q = h.split(d.inputs[0]), k = h.split(d.inputs[1]), v = h.split(d.inputs[2]);
  Value s = h.scores(q, k, h.scale(d.inputs[0]));
  Value seen = h.seen(s, behind(d.inputs, 3));
  s = only(seen, s, kMasked);
  Value top = reduce_max(s, {-1}, d.loc);
  Value e = only(seen, exp(s - along_last(top, s, d.loc)), 0);
  Value total = sum(e, {-1}, d.loc);
  // A query that sees no key: zeros, and log(0).
  Value out = h.apply(e / along_last(maximum(total, 1e-30), e, d.loc), v);
  return {h.merge(out, d.inputs[0].type()), log(total) + top};
}

Values attention_grad_parts(const DecomposeCall& d) {
  Heads h{d.node, d.loc};
  const Type type = d.inputs[0].type(), keys = d.inputs[1].type();
  Value q = h.split(d.inputs[0]), k = h.split(d.inputs[1]), v = h.split(d.inputs[2]);
  Value out = h.split(d.inputs[3]), dout = h.split(d.inputs[5]);
  double scale = h.scale(d.inputs[0]);
  Value s = h.scores(q, k, scale);
  Value p = only(h.seen(s, behind(d.inputs, 6)), exp(s - along_last(d.inputs[4], s, d.loc)), 0);
  Value delta = along_last(sum(out * dout, {-1}, d.loc), s, d.loc);
  Value ds = p * (h.rows_by_rows(dout, v) - delta) * scale;
  return {h.merge(h.apply(ds, k), type), h.merge(h.apply_transposed(ds, q), keys),
          h.merge(h.apply_transposed(p, dout), keys)};
}

Values packed_attention_parts(const DecomposeCall& d) {
  const Values inputs = unpacked(d.inputs[0], d.loc);
  return attention_parts({d.builder, d.node, inputs, d.loc});
}

Values packed_attention_grad_parts(const DecomposeCall& d) {
  Values inputs = unpacked(d.inputs[0], d.loc);
  inputs.insert(inputs.end(), d.inputs.begin() + 1, d.inputs.end());
  return {packed(attention_grad_parts({d.builder, d.node, inputs, d.loc}), d.loc)};
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

void need_none_through_lse(const GradientCall& g) {
  if (g.cotangents[1].empty()) return;
  throw Error(
      ErrorKind::kUnimplemented,
      cat(to_string(g.node.op), ": the gradient through its second result, lse, is not offered"));
}

Values attention_gradient(const GradientCall& g) {
  need_none_through_lse(g);
  Values operands = {g.inputs[0],  g.inputs[1],  g.inputs[2],
                     g.results[0], g.results[1], g.cotangents[0]};
  const Values starts = behind(g.inputs, 3);
  operands.insert(operands.end(), starts.begin(), starts.end());
  Values gradient = g.builder.emit(Op::attention_grad, operands, g.node.attrs, g.loc);
  gradient.resize(g.inputs.size());
  return gradient;
}

Values packed_attention_gradient(const GradientCall& g) {
  need_none_through_lse(g);
  return g.builder.emit(Op::packed_attention_grad,
                        {g.inputs[0], g.results[0], g.results[1], g.cotangents[0]}, g.node.attrs,
                        g.loc);
}

// `products` matrix products of queries x keys x dim.
Cost attention_cost(const OpCall& call, double products, int64_t keys, int64_t dim) {
  const Dims& q = call.inputs[0].dims;
  double pairs = static_cast<double>(q[0] * q[1]) * static_cast<double>(keys);
  const AttrValue* causal = call.attrs.find("causal");
  if (causal != nullptr && std::get<bool>(*causal)) pairs /= 2;
  return {products * 2 * pairs * static_cast<double>(dim), bytes_moved(call)};
}
Cost attention_cost(const OpCall& call, double products) {
  return attention_cost(call, products, call.inputs[1].dims[1], call.inputs[0].dims[2]);
}
Cost packed_attention_cost(const OpCall& call, double products) {
  const Dims& qkv = call.inputs[0].dims;
  return attention_cost(call, products, qkv[1], qkv[3]);
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
           .inputs_max = 5,
           .results = 2,
           .attrs = causal_attrs(),
           .type_rule = attention_type,
           .factors = attention_factors,
           .gradient = attention_gradient,
           .decompose = attention_parts,
           .cost = [](const OpCall& c) { return attention_cost(c, 2); },
           .doc = "(q[batch, queries, dim], k, v [batch, keys, dim]): softmax(q k^T * scale) v in "
                  "each head, and lse, the logsumexp of each row of scores, f32[batch, heads, "
                  "queries] (f64 for f64). Queries are the last of the keys; or two more operands, "
                  "q_start and k_start i32[], say where in the sequence both begin. A query that "
                  "sees no key gives zeros, and -inf.",
           .distributed_ops = {ring_attention()}}),
      composite({.op = Op::attention_grad,
                 .name = "attention_grad",
                 .inputs_min = 6,
                 .inputs_max = 8,
                 .results = 3,
                 .attrs = causal_attrs(),
                 .type_rule = attention_grad_type,
                 .factors = attention_factors,
                 .no_gradient = "second derivatives need the decomposition, not the kernel",
                 .decompose = attention_grad_parts,
                 .cost = [](const OpCall& c) { return attention_cost(c, 5); },
                 .doc = "(q, k, v, out, lse, dout), and perhaps q_start and k_start: dq, dk, dv. "
                        "Of a part of the keys where lse and out are of all: terms of dq.",
                 .distributed_ops = {ring_attention_grad()}}),
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

std::vector<OpRow> packed_attention_rows() {
  return {
      composite({.op = Op::packed_attention,
                 .name = "packed_attention",
                 .results = 2,
                 .attrs = causal_attrs(),
                 .type_rule = packed_attention_type,
                 .factors = packed_attention_factors,
                 .gradient = packed_attention_gradient,
                 .decompose = packed_attention_parts,
                 .cost = [](const OpCall& c) { return packed_attention_cost(c, 2); },
                 .doc =
                     "(qkv[batch, seq, 3, dim]): attention of q, k and v, which lie side by side "
                     "as one product with their joined weights gives them.",
                 .distributed_ops = {packed_ring_attention()}}),
      composite({.op = Op::packed_attention_grad,
                 .name = "packed_attention_grad",
                 .inputs_min = 4,
                 .inputs_max = 4,
                 .attrs = causal_attrs(),
                 .type_rule = packed_attention_grad_type,
                 .factors = packed_attention_factors,
                 .no_gradient = "second derivatives need the decomposition, not the kernel",
                 .decompose = packed_attention_grad_parts,
                 .cost = [](const OpCall& c) { return packed_attention_cost(c, 5); },
                 .doc = "(qkv, out, lse, dout): dqkv, the results of attention_grad side by side.",
                 .distributed_ops = {packed_ring_attention_grad()}}),
  };
}

}  // namespace gangway::internal
