// The ops as free functions on Value, with NumPy/JAX names. Shapes are static; element types are
// never mixed silently: operands of one op have one dtype (convert() is explicit). Two-operand
// element-wise functions broadcast as NumPy does (trailing dimensions align; size 1 stretches);
// numbers take the other operand's dtype, which must have them: `i * 0.5` is an error where i is
// i32.
//
// Errors: kInvalid at the call, naming the op, both shapes and the user's line.
#pragma once

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/build/value.h"

namespace gangway {

#define GW_LOC Loc loc = Loc::current()

// Element-wise; see docs/ir.md for each.
Value neg(Value x, GW_LOC);
Value abs(Value x, GW_LOC);
Value sign(Value x, GW_LOC);
Value exp(Value x, GW_LOC);
Value log(Value x, GW_LOC);
Value log1p(Value x, GW_LOC);
Value expm1(Value x, GW_LOC);  // exp(x) - 1
Value tanh(Value x, GW_LOC);
Value sqrt(Value x, GW_LOC);
Value rsqrt(Value x, GW_LOC);
Value erf(Value x, GW_LOC);
Value logistic(Value x, GW_LOC);
Value sin(Value x, GW_LOC);
Value cos(Value x, GW_LOC);
Value floor(Value x, GW_LOC);
Value is_finite(Value x, GW_LOC);    // -> bool
Value logical_not(Value x, GW_LOC);  // bool
Value square(Value x, GW_LOC);
Value silu(Value x, GW_LOC);  // x * logistic(x)
Value gelu(Value x, GW_LOC);  // tanh form
Value maximum(Operand a, Operand b);
Value minimum(Operand a, Operand b);
Value pow(Operand a, Operand b);
Value logical_and(Value a, Value b, GW_LOC);
Value logical_or(Value a, Value b, GW_LOC);
// Comparisons -> bool.
Value eq(Operand a, Operand b);
Value ne(Operand a, Operand b);
Value lt(Operand a, Operand b);
Value le(Operand a, Operand b);
Value gt(Operand a, Operand b);
Value ge(Operand a, Operand b);
Value where(Value condition, Operand then, Operand otherwise);
Value convert(Value x, DType dtype, GW_LOC);

Value operator+(Operand a, Operand b);
Value operator-(Operand a, Operand b);
Value operator*(Operand a, Operand b);
Value operator/(Operand a, Operand b);
Value operator-(Operand x);

// Shape.
Value constant_like(Value x, double value, GW_LOC);  // x's type, filled.
Value iota(Builder& builder, Type type, int axis, GW_LOC);
Value table(Builder& builder, const std::vector<int32_t>& values, GW_LOC);  // i32[n]
Value broadcast_to(Value x, Dims dims, GW_LOC);                             // NumPy rules.
// Dimension i of x becomes dimension map[i] of the result (stretched where its size is 1); the
// others are new.
Value broadcast_in(Value x, Dims dims, std::vector<int64_t> map, GW_LOC);
Value reshape(Value x, Dims dims, GW_LOC);                                // One size may be -1.
Value transpose(Value x, std::vector<int64_t> permutation = {}, GW_LOC);  // Default: reverse.
Value slice(Value x, int axis, int64_t start, int64_t limit, int64_t stride = 1, GW_LOC);
Value concat(const std::vector<Value>& parts, int axis, GW_LOC);
Value pad(Value x, int axis, int64_t low, int64_t high, double value = 0, GW_LOC);
// A window of `size` elements of x along `axis` that begins at the run-time scalar `start` (i32[]),
// which is clamped so that the window lies inside x.
Value dynamic_slice(Value x, Value start, int axis, int64_t size, GW_LOC);
Value dynamic_update(Value x, Value update, Value start, int axis, GW_LOC);

// Reductions; negative axes count from the end; no axes: all of them.
Value sum(Value x, std::vector<int64_t> axes = {}, GW_LOC);
Value mean(Value x, std::vector<int64_t> axes = {}, GW_LOC);
Value reduce_max(Value x, std::vector<int64_t> axes = {}, GW_LOC);
Value reduce_min(Value x, std::vector<int64_t> axes = {}, GW_LOC);
Value argmax(Value x, int axis = -1, GW_LOC);  // -> i32; the lowest index among equals.
Value cumsum(Value x, int axis, GW_LOC);
Value sum_squares(Value x, GW_LOC);  // -> f32[] (f64[] of f64), fixed order.

// Products. dot contracts the last dimension of a with the first of b when b has rank 2. When ranks
// are equal and above 2 it contracts with b's last but one, and the leading dimensions are a batch
// (as in numpy.matmul).
Value dot(Value a, Value b, GW_LOC);
struct DotDims {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};
// Result: batch, then free dimensions of lhs, then of rhs.
Value dot_general(Value a, Value b, DotDims dims, GW_LOC);

// Index.
Value take(Value table, Value index, GW_LOC);  // table[N, ...], index i32[...] -> [index..., ...]
// The adjoint of take: -> [rows, ...]
Value scatter_add(Value index, Value updates, int64_t rows, GW_LOC);
std::pair<Value, Value> top_k(Value x, int64_t k, GW_LOC);  // Last axis -> values, indices i32.
std::pair<Value, Value> sort(Value x, GW_LOC);  // Last axis, stable -> values, order i32.

// Random: element i depends on (key: i32[2], i) alone, whatever the mesh (Philox4x32-10).
Value random_uniform(Value key, Type type, GW_LOC);  // [0, 1)
Value random_normal(Value key, Type type, GW_LOC);

// Control of differentiation and time.
Value stop_gradient(Value x, GW_LOC);
Value timed(Value x, int64_t microseconds, GW_LOC);  // Identity that keeps its device busy.

// Composites: a decomposition and a fused kernel each.
Value softmax(Value x, GW_LOC);                                         // Last axis.
Value rms_norm(Value x, Value weight = {}, double eps = 1e-5, GW_LOC);  // weight[dim]; none: ones.
Value layer_norm(Value x, Value weight, Value bias, double eps = 1e-5, GW_LOC);
// logits[..., classes], labels i32[...] -> nats, f32[...] (f64 for f64).
Value cross_entropy(Value logits, Value labels, GW_LOC);
struct AttentionOptions {
  int64_t heads = 1;
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(dim / heads)
};
// q, k, v and the result: [batch, seq, dim] each.
Value attention(Value q, Value k, Value v, AttentionOptions options, GW_LOC);
// qkv[batch, seq, 3, dim]: queries, keys and values side by side, as one product with their joined
// weights [in, 3, dim] gives them. The result: [batch, seq, dim].
Value packed_attention(Value qkv, AttentionOptions options, GW_LOC);
// One query against a cache: q[batch, 1, dim], k, v [batch, seq_max, dim], length: i32[] valid
// positions.
Value attention_decode(Value q, Value k, Value v, Value length, AttentionOptions options, GW_LOC);

// Mixture of experts. Tokens are routed within a group, never across: which tokens are routed or
// dropped does not depend on the mesh. Slots of a group: without a capacity (dropless) tokens * k,
// in the order of the experts; with one, experts * capacity.
struct Route {
  Value slot_token;  // i32[groups, slots]: token * k + choice, or -1 (empty).
  Value token_slot;  // i32[groups, tokens, k]: its slot, or -1 (dropped).
  Value sizes;  // i32[groups, experts]: rows of each expert; with a capacity always `capacity`.
  int64_t capacity = 0;
  // Dropless: room on a device for rows that others send it, in times of its own rows, where
  // experts are cut over devices.
  double bound = 2;
};
// expert: i32[groups, tokens, k].
Route moe_route(Value expert, int64_t experts, int64_t capacity = 0, GW_LOC);
// [groups, tokens, dim] -> [groups, slots, dim]
Value moe_dispatch(Value x, const Route& route, GW_LOC);
// [g, slots, d] x [experts, d, h] -> [g, slots, h]
Value grouped_dot(Value x, Value w, const Route& route, GW_LOC);
// [g, slots, d], [g, tokens, k] -> [g, tokens, d]
Value moe_combine(Value y, Value gate, const Route& route, GW_LOC);

// One decoupled-decay Adam step (Loshchilov & Hutter 2019); p, m, v f32 (f64), g any float.
// `scalars` are f32[] (f64[]) run-time inputs: learning rate, 1 - beta1^t, 1 - beta2^t, gradient
// multiplier (clipping).
struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.0;
};
struct AdamwState {
  Value p, m, v;
};
struct AdamwScalars {
  Value lr, correction1, correction2, grad_scale;
};
AdamwState adamw(AdamwState state, Value g, AdamwScalars scalars, AdamwOptions options, GW_LOC);

#undef GW_LOC

}  // namespace gangway
