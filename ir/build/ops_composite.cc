// The composites of ir/build/ops.h.
#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway {

Value softmax(Value x, Loc loc) { return x.builder().emit1(Op::softmax, {x}, {}, loc); }

Value rms_norm(Value x, Value weight, double eps, Loc loc) {
  if (weight.empty()) weight = x.builder().constant({x.dtype(), {x.dim(-1)}}, 1, loc);
  return x.builder().emit1(Op::rms_norm, {x, weight}, {{"eps", eps}}, loc);
}

Value layer_norm(Value x, Value weight, Value bias, double eps, Loc loc) {
  return x.builder().emit1(Op::layer_norm, {x, weight, bias}, {{"eps", eps}}, loc);
}

Value cross_entropy(Value logits, Value labels, Loc loc) {
  return logits.builder().emit1(Op::cross_entropy, {logits, labels}, {}, loc);
}

Value attention(Value q, Value k, Value v, AttentionOptions options, Loc loc) {
  return q.builder().emit1(
      Op::attention, {q, k, v},
      {{"heads", options.heads}, {"causal", options.causal}, {"scale", options.scale}}, loc);
}

Value packed_attention(Value qkv, AttentionOptions options, Loc loc) {
  return qkv.builder().emit1(
      Op::packed_attention, {qkv},
      {{"heads", options.heads}, {"causal", options.causal}, {"scale", options.scale}}, loc);
}

Value attention_decode(Value q, Value k, Value v, Value length, AttentionOptions options, Loc loc) {
  return q.builder().emit1(Op::attention_decode, {q, k, v, length},
                           {{"heads", options.heads}, {"scale", options.scale}}, loc);
}

Route moe_route(Value expert, int64_t experts, int64_t capacity, Loc loc) {
  std::vector<Value> results = expert.builder().emit(
      Op::moe_route, {expert}, {{"experts", experts}, {"capacity", capacity}}, loc);
  return {.slot_token = results[0],
          .token_slot = results[1],
          .sizes = results[2],
          .capacity = capacity};
}

Value moe_dispatch(Value x, const Route& route, Loc loc) {
  return x.builder().emit1(Op::moe_dispatch, {x, route.slot_token, route.token_slot},
                           {{"k", route.token_slot.dim(-1)}}, loc);
}

Value grouped_dot(Value x, Value w, const Route& route, Loc loc) {
  Builder& b = x.builder();
  if (route.capacity > 0)
    return b.emit1(Op::grouped_dot, {x, w}, {{"capacity", route.capacity}}, loc);
  return b.emit1(Op::grouped_dot, {x, w, route.sizes}, {{"bound", route.bound}}, loc);
}

Value moe_combine(Value y, Value gate, const Route& route, Loc loc) {
  return y.builder().emit1(Op::moe_combine, {y, gate, route.slot_token, route.token_slot}, {}, loc);
}

AdamwState adamw(AdamwState state, Value g, AdamwScalars scalars, AdamwOptions options, Loc loc) {
  std::vector<Value> next =
      state.p.builder().emit(Op::adamw,
                             {state.p, state.m, state.v, g, scalars.lr, scalars.correction1,
                              scalars.correction2, scalars.grad_scale},
                             {{"beta1", options.beta1},
                              {"beta2", options.beta2},
                              {"eps", options.eps},
                              {"weight_decay", options.weight_decay}},
                             loc);
  return {next[0], next[1], next[2]};
}

}  // namespace gangway
