#include "programs/models/transformer.h"

#include <cmath>

namespace gangway::programs {
namespace {

Value activate(const TransformerConfig& config, Value x) {
  return config.activation == Activation::kGelu ? gelu(x) : silu(x);
}

// A weight in the type that is computed with.
Value weight(const TransformerConfig& config, const Tree& w) { return convert(w, config.compute); }

Value norm(const TransformerConfig& config, const Tree& w, Value x) {
  return rms_norm(x, weight(config, w), 1e-5);
}

Value place(const TransformerConfig& config, std::string_view name, Value x) {
  return placed(config.activations, name, x);
}

Value feed_forward(const TransformerConfig& config, const Tree& p, Value x) {
  x = place(config, "ffn.in", x);
  Value up = dot(x, weight(config, p["up"]));
  Value hidden = config.gated ? activate(config, dot(x, weight(config, p["gate"]))) * up
                              : activate(config, up);
  hidden = place(config, "ffn.hidden", hidden);
  return place(config, "ffn.out", dot(hidden, weight(config, p["down"])));
}

Value self_attention(const TransformerConfig& config, const Tree& p, Value x) {
  x = place(config, "attn.in", x);
  Value q = dot(x, weight(config, p["q"]));
  Value k = dot(x, weight(config, p["k"]));
  Value v = dot(x, weight(config, p["v"]));
  Value mixed = attention(q, k, v, {.heads = config.heads, .causal = true});
  mixed = place(config, "attn.mixed", mixed);
  return place(config, "attn.out", dot(mixed, weight(config, p["o"])));
}

// What the layers leave behind besides x.
struct Auxiliary {
  Value balance, z;          // Sums over layers.
  std::vector<Value> loads;  // [1, experts] each.
};

void add_to(Value& total, Value term) { total = total ? total + term : term; }

Value mixture(const TransformerConfig& config, const Tree& p, Value x, Auxiliary& aux) {
  auto act = [&](Value h) { return activate(config, h); };
  MoeResult result = moe(config.moe, p, x, act, config.activations);
  add_to(aux.balance, result.balance);
  add_to(aux.z, result.z);
  aux.loads.push_back(reshape(result.load, {1, config.moe.experts}));
  return result.out;
}

Value layer_of(const TransformerConfig& config, const Tree& p, Value x, Auxiliary& aux) {
  x = place(config, "residual", x);
  x = x + self_attention(config, p["attn"], norm(config, p["attn_norm"], x));
  x = place(config, "residual", x);
  Value n = norm(config, p["ffn_norm"], x);
  x = x + (config.moe.experts > 0 ? mixture(config, p["moe"], n, aux)
                                  : feed_forward(config, p["ffn"], n));
  return place(config, "residual", x);
}

StateTree layer_parameters(const TransformerConfig& c) {
  const double small = 1.0 / std::sqrt(static_cast<double>(c.dim));
  // Projections back into the residual stream begin smaller the deeper the model (GPT-2).
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(c.layers));
  const double narrow = residual / std::sqrt(static_cast<double>(c.hidden));
  auto matrix = [&](Dims dims, double deviation) {
    return normal({c.storage, std::move(dims)}, deviation);
  };
  StateTree layer;
  layer.set("attn_norm", filled({c.storage, {c.dim}}, 1));
  StateTree attn;
  for (const char* name : {"q", "k", "v"}) attn.set(name, matrix({c.dim, c.dim}, small));
  attn.set("o", matrix({c.dim, c.dim}, small * residual));
  layer.set("attn", attn);
  layer.set("ffn_norm", filled({c.storage, {c.dim}}, 1));
  StateTree ffn;
  const int64_t e = c.moe.experts;
  // As many as `lead` says; without one, a single dense layer.
  auto add_experts = [&](StateTree& to, const Dims& lead) {
    auto dims = [&](int64_t rows, int64_t columns) {
      Dims all = lead;
      all.insert(all.end(), {rows, columns});
      return all;
    };
    to.set("up", matrix(dims(c.dim, c.hidden), small));
    if (c.gated) to.set("gate", matrix(dims(c.dim, c.hidden), small));
    to.set("down", matrix(dims(c.hidden, c.dim), narrow));
  };
  if (e > 0) ffn.set("router", matrix({c.dim, e}, small));
  add_experts(ffn, e > 0 ? Dims{e} : Dims{});
  if (e > 0 && c.moe.residual) add_experts(ffn.child("residual"), {});
  layer.set(e > 0 ? "moe" : "ffn", ffn);
  return layer;
}

}  // namespace

void require_valid(const TransformerConfig& c) {
  GW_REQUIRE(c.vocab > 0 && c.seq > 1 && c.dim > 0 && c.layers > 0 && c.heads > 0 && c.hidden > 0,
             "transformer: every size must be positive, and seq at least 2");
  GW_REQUIRE(c.dim % c.heads == 0, "transformer: heads must divide dim: heads is ", c.heads,
             ", dim ", c.dim);
  GW_REQUIRE(is_float(c.storage) && is_float(c.compute),
             "transformer: storage and compute are float types");
  require_known(c.activations);
}

StateTree transformer_parameters(const TransformerConfig& c) {
  require_valid(c);
  const double small = 1.0 / std::sqrt(static_cast<double>(c.dim));
  StateTree tree;
  tree.set("embed", normal({c.storage, {c.vocab, c.dim}}, small));
  if (c.positional) tree.set("pos", normal({c.storage, {c.seq, c.dim}}, small));
  StateTree layers;
  for (int64_t i = 0; i < c.layers; ++i) layers.append(layer_parameters(c));
  tree.set("layers", layers);
  tree.set("final_norm", filled({c.storage, {c.dim}}, 1));
  if (!c.tied) tree.set("head", normal({c.storage, {c.dim, c.vocab}}, small));
  return tree;
}

int64_t parameter_count(const TransformerConfig& config) {
  int64_t count = 0;
  transformer_parameters(config).for_each(
      [&](const std::string&, const StateSpec& spec) { count += spec.type.elements(); });
  return count;
}

Value transformer_hidden(const TransformerConfig& config, const Tree& p, Value tokens,
                         Losses* losses, Loc loc) {
  const LocScope at(loc);
  Builder& b = tokens.builder();
  const Dims dims = tokens.type().dims;
  GW_REQUIRE(dims.size() == 2 && dims[1] <= config.seq,
             "transformer: tokens are i32[batch, seq] with seq at most ", config.seq, ", got ",
             to_string(tokens.type()));
  Value x = take(weight(config, p["embed"]), tokens);
  if (config.positional) {
    Value pos = weight(config, p["pos"]);
    if (dims[1] < config.seq) pos = slice(pos, 0, 0, dims[1], 1);
    x = x + broadcast_in(pos, x.type().dims, {1, 2});
  }
  x = place(config, "embedded", x);
  Auxiliary aux;
  int index = 0;
  for (const Tree& layer : p["layers"]) {
    Builder::Scope scope(b, "layers." + std::to_string(index++));
    if (config.remat) {
      x = remat(b, [&] { return layer_of(config, layer, x, aux); });
    } else {
      x = layer_of(config, layer, x, aux);
    }
  }
  if (losses != nullptr && config.moe.experts > 0) {
    const double share = 1.0 / static_cast<double>(config.layers);
    losses->balance = aux.balance * share;
    losses->z = aux.z * share;
    losses->load = concat(aux.loads, 0);
    losses->total = aux.balance * config.moe.balance_coefficient + aux.z * config.moe.z_coefficient;
  }
  return place(config, "final", norm(config, p["final_norm"], x));
}

Value transformer_logits(const TransformerConfig& config, const Tree& p, Value hidden, Loc loc) {
  const LocScope at(loc);
  Value logits = config.tied ? dot_general(hidden, weight(config, p["embed"]),
                                           {.lhs_contract = {2}, .rhs_contract = {1}})
                             : dot(hidden, weight(config, p["head"]));
  return place(config, "logits", logits);
}

Losses transformer_loss(const TransformerConfig& config, const Tree& p, Value tokens, Loc loc) {
  const LocScope at(loc);
  Losses losses;
  const Dims dims = tokens.type().dims;
  Value logits = transformer_logits(config, p, transformer_hidden(config, p, tokens, &losses));
  // Position t predicts token t + 1. The last position has nothing to predict: it is masked, not
  // cut off, so that the logits need no copy.
  Value labels = pad(slice(tokens, 1, 1, dims[1], 1), 1, 0, 1, 0);
  Value each = cross_entropy(logits, labels);
  Value position = iota(tokens.builder(), i32(dims), 1);
  Value predicts = convert(lt(position, dims[1] - 1), each.dtype());
  const double count = static_cast<double>(dims[0] * (dims[1] - 1));
  losses.cross_entropy = sum(each * predicts) * (1.0 / count);
  losses.total = losses.total ? losses.cross_entropy + losses.total : losses.cross_entropy;
  return losses;
}

DecodeResult transformer_decode(const TransformerConfig& config, const Tree& p, Value token,
                                Value position, const std::vector<std::pair<Value, Value>>& caches,
                                Loc loc) {
  const LocScope at(loc);
  const int64_t batch = token.dim(0);
  TransformerConfig step = config;
  step.moe.groups = 1;
  step.moe.capacity_factor = 0;
  step.activations.clear();
  Value x = take(weight(step, p["embed"]), reshape(token, {batch, 1}));
  if (config.positional) {
    Value row = dynamic_slice(weight(step, p["pos"]), position, 0, 1);
    x = x + broadcast_in(row, x.type().dims, {1, 2});
  }
  DecodeResult result;
  Auxiliary aux;
  Value length = position + 1;
  size_t index = 0;
  for (const Tree& layer : p["layers"]) {
    Builder::Scope scope(token.builder(), "layers." + std::to_string(index));
    const auto& [keys, values] = caches[index++];
    const Tree& attn = layer["attn"];
    Value n = norm(step, layer["attn_norm"], x);
    Value k = dynamic_update(keys, dot(n, weight(step, attn["k"])), position, 1);
    Value v = dynamic_update(values, dot(n, weight(step, attn["v"])), position, 1);
    Value q = dot(n, weight(step, attn["q"]));
    Value mixed = attention_decode(q, k, v, length, {.heads = config.heads, .causal = true});
    x = x + dot(mixed, weight(step, attn["o"]));
    n = norm(step, layer["ffn_norm"], x);
    x = x + (config.moe.experts > 0 ? mixture(step, layer["moe"], n, aux)
                                    : feed_forward(step, layer["ffn"], n));
    result.caches.emplace_back(k, v);
  }
  Value logits = transformer_logits(step, p, norm(step, p["final_norm"], x));
  result.logits = reshape(logits, {batch, config.vocab});
  return result;
}

}  // namespace gangway::programs
