#include "tests/numerics/unrolled_transformer.h"

namespace gangway::numerics {
namespace {

using programs::TransformerConfig;

class Unrolled {
 public:
  explicit Unrolled(const TransformerConfig& config) : config_(config) {}

  programs::Losses loss(const Tree& p, Value tokens) {
    const Dims dims = tokens.type().dims;
    Value logits = logits_of(p, hidden_of(p, tokens));
    Value each = cross_entropy(logits, pad(slice(tokens, 1, 1, dims[1], 1), 1, 0, 1, 0));
    Value position = iota(tokens.builder(), i32(dims), 1);
    Value predicts = convert(lt(position, dims[1] - 1), each.dtype());
    programs::Losses losses;
    losses.cross_entropy =
        sum(each * predicts) * (1.0 / static_cast<double>(dims[0] * (dims[1] - 1)));
    losses.total = losses.cross_entropy;
    if (loads_.empty()) return losses;
    losses.total = losses.total +
                   (balance_ * config_.moe.balance_coefficient + z_ * config_.moe.z_coefficient);
    losses.load = concat(loads_, 0);
    return losses;
  }

 private:
  Value weight(const Tree& w) const { return convert(w, config_.compute); }
  Value norm(const Tree& w, Value x) const { return rms_norm(x, weight(w), 1e-5); }
  Value activate(Value x) const {
    return config_.activation == programs::Activation::kGelu ? gelu(x) : silu(x);
  }

  Value hidden_of(const Tree& p, Value tokens) {
    Value x = take(weight(p["embed"]), tokens);
    if (config_.positional) x = x + broadcast_in(weight(p["pos"]), x.type().dims, {1, 2});
    for (const Tree& layer : p["layers"]) {
      x = config_.remat ? remat(x.builder(), [&] { return layer_of(layer, x); })
                        : layer_of(layer, x);
    }
    return norm(p["final_norm"], x);
  }

  Value logits_of(const Tree& p, Value hidden) const {
    if (!config_.tied) return dot(hidden, weight(p["head"]));
    return dot_general(hidden, weight(p["embed"]), {.lhs_contract = {2}, .rhs_contract = {1}});
  }

  Value layer_of(const Tree& p, Value x) {
    x = x + attention_of(p["attn"], norm(p["attn_norm"], x));
    Value n = norm(p["ffn_norm"], x);
    return x + (config_.moe.experts > 0 ? experts_of(p["moe"], n) : feed_forward_of(p["ffn"], n));
  }

  Value attention_of(const Tree& p, Value x) const {
    const Value w = weight(p["qkv"]);
    const auto of = [&](int64_t i) {
      return dot(x, reshape(slice(w, 1, i, i + 1, 1), {w.dim(0), w.dim(2)}));
    };
    Value mixed = attention(of(0), of(1), of(2), {.heads = config_.heads, .causal = true});
    return dot(mixed, weight(p["o"]));
  }

  Value feed_forward_of(const Tree& p, Value x) const {
    Value up = dot(x, weight(p["up"]));
    Value hidden = config_.gated ? activate(dot(x, weight(p["gate"]))) * up : activate(up);
    return dot(hidden, weight(p["down"]));
  }

  Value experts_of(const Tree& p, Value x) {
    const programs::MoeResult routed =
        programs::moe(config_.moe, p, x, [this](Value h) { return activate(h); });
    balance_ = balance_.empty() ? routed.balance : balance_ + routed.balance;
    z_ = z_.empty() ? routed.z : z_ + routed.z;
    loads_.push_back(reshape(mean(routed.load, {0}), {1, config_.moe.experts}));
    return routed.out;
  }

  const TransformerConfig& config_;
  Value balance_, z_;
  std::vector<Value> loads_;
};

// The spec of one layer of a stack.
StateSpec layer_of(StateSpec stack) {
  stack.type.dims.erase(stack.type.dims.begin());
  stack.stacked.reset();
  return stack;
}

}  // namespace

StateTree unrolled_parameters(const TransformerConfig& config) {
  StateTree tree = programs::transformer_parameters(config);
  StateTree layers;
  for (int64_t i = 0; i < config.layers; ++i) {
    layers.append(tree["layers"].map(
        [](const std::string&, const StateSpec& stack) { return layer_of(stack); }));
  }
  tree.set("layers", layers);
  return tree;
}

programs::Losses unrolled_loss(const TransformerConfig& config, const Tree& p, Value tokens) {
  return Unrolled(config).loss(p, tokens);
}

}  // namespace gangway::numerics
