#include "programs/models/transformer.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/tensor_parts.h"
#include "ir/build/scan.h"

namespace gangway::programs {
namespace {

ActivationFunction activation_of(const TransformerConfig& config) {
  const Activation activation = config.activation;
  return [activation](Value x) { return activation == Activation::kGelu ? gelu(x) : silu(x); };
}

// Returns a weight in the compute type.
Value weight(const TransformerConfig& config, const Tree& w) { return convert(w, config.compute); }

Value norm(const TransformerConfig& config, const Tree& w, Value x) {
  return rms_norm(x, weight(config, w), 1e-5);
}

Value place(const TransformerConfig& config, std::string_view name, Value x) {
  return placed(config.activations, name, x);
}

// Queries, keys and values side by side: [batch, seq, dim] -> [batch, seq, 3, dim].
Value products(const TransformerConfig& config, const Tree& p, Value x) {
  return dot_general(x, weight(config, p[packed_projections().name]),
                     {.lhs_contract = {2}, .rhs_contract = {0}});
}

Value self_attention(const TransformerConfig& config, const Tree& p, Value x) {
  x = place(config, "attn.in", x);
  Value mixed = packed_attention(products(config, p, x), {.heads = config.heads, .causal = true});
  mixed = place(config, "attn.mixed", mixed);
  return place(config, "attn.out", dot(mixed, weight(config, p["o"])));
}

constexpr const char* kLayers = "layers";

// Equal layers that follow one another and are computed in one scan.
struct LayerRun {
  int64_t first = 0, count = 0;
  std::string name;
  TransformerConfig config;  // `moe.experts` is the number of experts of these layers.
};
std::vector<LayerRun> runs_of(const TransformerConfig& config) {
  std::vector<LayerRun> runs;
  const std::vector<int64_t> by_layer = experts_by_layer(config);
  for (int64_t i = 0; i < config.layers; ++i) {
    const int64_t experts = by_layer[static_cast<size_t>(i)];
    if (runs.empty() || runs.back().config.moe.experts != experts) {
      runs.push_back({.first = i,
                      .count = 0,
                      .name = i == 0 ? kLayers : cat(kLayers, "_from_", i),
                      .config = config});
      runs.back().config.moe.experts = experts;
      runs.back().config.experts.clear();
    }
    ++runs.back().count;
  }
  return runs;
}

// Returns the states of a run of layers, given those of one layer. Files name all layers
// "layers.<number>".
StateTree stack_of(const LayerRun& run, const StateTree& layer) {
  return stacked(layer, run.count, run.first, run.first == 0 ? "" : kLayers);
}

// The second half of a layer. Sets `routed` if the layer has experts.
Value feed_forward_or_experts(const TransformerConfig& config, const Tree& p, Value x,
                              MoeResult& routed) {
  const Builder::Scope in(x.builder(), has_experts(config) ? "moe" : "ffn");
  Value n = norm(config, p["ffn_norm"], x);
  const ActivationFunction activation = activation_of(config);
  if (!has_experts(config)) return x + feed_forward(p["ffn"], n, activation, config.activations);
  routed = moe(config.moe, p["moe"], n, activation, config.activations);
  return x + routed.out;
}

Value layer_of(const TransformerConfig& config, const Tree& p, Value x, MoeResult& routed) {
  x = place(config, "residual", x);
  {
    const Builder::Scope in(x.builder(), "attn");
    x = x + self_attention(config, p["attn"], norm(config, p["attn_norm"], x));
  }
  x = place(config, "residual", x);
  return place(config, "residual", feed_forward_or_experts(config, p, x, routed));
}

// The values that each layer passes on to the next: x, and with experts the sums of their auxiliary
// losses.
Tree first_carries(const TransformerConfig& config, Value x) {
  Tree carries;
  carries.set("x", x);
  if (!has_experts(config)) return carries;
  const DType exact = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const char* sum : {"balance", "z"}) carries.set(sum, x.builder().constant({exact, {}}, 0));
  return carries;
}

// One layer. If it has experts, their loads are stacked: [groups, experts].
Scanned next_layer(const TransformerConfig& config, const ScanStep& at) {
  MoeResult routed;
  Scanned next;
  next.carries.set("x", layer_of(config, at.slices, at.carries["x"], routed));
  if (!has_experts(config)) return next;
  next.carries.set("balance", at.carries["balance"] + routed.balance);
  next.carries.set("z", at.carries["z"] + routed.z);
  next.stacked = routed.load;
  return next;
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
  const PackedTensor& packed = packed_projections();
  attn.set(packed.name, side_by_side(matrix({c.dim, c.dim}, small), packed.parts));
  attn.set("o", matrix({c.dim, c.dim}, small * residual));
  layer.set("attn", attn);
  layer.set("ffn_norm", filled({c.storage, {c.dim}}, 1));
  StateTree ffn;
  const int64_t e = c.moe.experts;
  // `lead` is the number of experts; empty for a single dense layer.
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

bool has_experts(const TransformerConfig& config) {
  if (config.experts.empty()) return config.moe.experts > 0;
  return std::ranges::any_of(config.experts, [](int64_t experts) { return experts > 0; });
}

std::vector<int64_t> experts_by_layer(const TransformerConfig& config) {
  require_valid(config);
  if (!config.experts.empty()) return config.experts;
  return std::vector<int64_t>(static_cast<size_t>(config.layers), config.moe.experts);
}

void require_valid(const TransformerConfig& c) {
  GW_REQUIRE(c.vocab > 0 && c.seq > 1 && c.dim > 0 && c.layers > 0 && c.heads > 0 && c.hidden > 0,
             "transformer: every size must be positive, and seq at least 2");
  GW_REQUIRE(c.dim % c.heads == 0, "transformer: heads must divide dim: heads is ", c.heads,
             ", dim ", c.dim);
  GW_REQUIRE(is_float(c.storage) && is_float(c.compute),
             "transformer: storage and compute are float types");
  require_known(c.activations);
  GW_REQUIRE(c.experts.empty() || std::ssize(c.experts) == c.layers,
             "transformer: experts by layer: expected ", c.layers, " numbers, got ",
             c.experts.size());
}

StateTree transformer_parameters(const TransformerConfig& c) {
  require_valid(c);
  const double small = 1.0 / std::sqrt(static_cast<double>(c.dim));
  StateTree tree;
  tree.set("embed", normal({c.storage, {c.vocab, c.dim}}, small));
  if (c.positional) tree.set("pos", normal({c.storage, {c.seq, c.dim}}, small));
  for (const LayerRun& run : runs_of(c))
    tree.set(run.name, stack_of(run, layer_parameters(run.config)));
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

namespace {

Value embedded(const TransformerConfig& config, const Tree& p, Value tokens) {
  const Builder::Scope in(tokens.builder(), "embed");
  Value x = take(weight(config, p["embed"]), tokens);
  if (config.positional) {
    const int64_t length = tokens.dim(1);
    Value pos = weight(config, p["pos"]);
    if (length < config.seq) pos = slice(pos, 0, 0, length, 1);
    x = x + broadcast_in(pos, x.type().dims, {1, 2});
  }
  return place(config, "embedded", x);
}

// Sums of the auxiliary losses, and the loads, of all runs of layers.
struct Auxiliary {
  Value balance, z;
  std::vector<Value> loads;  // [layers of a run, experts]
  int64_t layers = 0;        // Number of layers that have experts.

  void add(const Scanned& run, int64_t count) {
    const auto add_to = [](Value& total, Value term) {
      total = total.empty() ? term : total + term;
    };
    add_to(balance, run.carries["balance"]);
    add_to(z, run.carries["z"]);
    loads.push_back(mean(run.stacked.leaf(), {1}));  // A group lies where its tokens lie.
    layers += count;
  }
  Value load() const {
    if (loads.size() == 1) return loads[0];
    int64_t widest = 0;
    for (const Value& each : loads) widest = std::max(widest, each.dim(1));
    std::vector<Value> wide;
    for (const Value& each : loads) wide.push_back(pad(each, 1, 0, widest - each.dim(1), 0));
    return concat(wide, 0);
  }
};

}  // namespace

Value transformer_hidden(const TransformerConfig& config, const Tree& p, Value tokens,
                         Losses* losses, Loc loc) {
  const LocScope at(loc);
  Builder& b = tokens.builder();
  const Dims dims = tokens.type().dims;
  GW_REQUIRE(dims.size() == 2 && dims[1] <= config.seq,
             "transformer: tokens are i32[batch, seq] with seq at most ", config.seq, ", got ",
             to_string(tokens.type()));
  Value x = embedded(config, p, tokens);
  Auxiliary sums;
  for (const LayerRun& run : runs_of(config)) {
    const Builder::Scope in(b, run.name);
    const Scanned layers = scan(b,
                                {.length = run.count,
                                 .carries = first_carries(run.config, x),
                                 .stacked = p[run.name],
                                 .name = run.name},
                                [&](const ScanStep& layer) {
                                  auto next = [&] { return next_layer(run.config, layer); };
                                  return config.remat ? remat(layer.builder, next) : next();
                                });
    x = layers.carries["x"];
    if (has_experts(run.config)) sums.add(layers, run.count);
  }
  if (losses != nullptr && sums.layers > 0) {
    const double share = 1.0 / static_cast<double>(sums.layers);
    losses->balance = sums.balance * share;
    losses->load = sums.load();
    losses->total =
        sums.balance * config.moe.balance_coefficient + sums.z * config.moe.z_coefficient;
  }
  return place(config, "final", norm(config, p["final_norm"], x));
}

Value transformer_logits(const TransformerConfig& config, const Tree& p, Value hidden, Loc loc) {
  const LocScope at(loc);
  const Builder::Scope in(hidden.builder(), "head");
  Value logits = config.tied ? dot_general(hidden, weight(config, p["embed"]),
                                           {.lhs_contract = {2}, .rhs_contract = {1}})
                             : dot(hidden, weight(config, p["head"]));
  return place(config, "logits", logits);
}

Losses transformer_loss(const TransformerConfig& config, const Tree& p, Value tokens, Loc loc) {
  const LocScope at(loc);
  Losses losses;
  const Dims dims = tokens.type().dims;
  // A tied table is converted once, so that the two reads of it have one gradient together, in the
  // compute type, and devices exchange only that one.
  Tree read = p;
  if (config.tied) read.set("embed", weight(config, p["embed"]));
  Value logits =
      transformer_logits(config, read, transformer_hidden(config, read, tokens, &losses));
  const Builder::Scope in(tokens.builder(), "loss");
  // Position t predicts token t + 1. The last position has nothing to predict: it is masked, not
  // cut off, so that the logits need no copy.
  Value labels = pad(slice(tokens, 1, 1, dims[1], 1), 1, 0, 1, 0);
  Value each = cross_entropy(logits, labels);
  Value position = iota(tokens.builder(), i32(dims), 1);
  Value predicts = convert(lt(position, dims[1] - 1), each.dtype());
  const double count = static_cast<double>(dims[0] * (dims[1] - 1));
  losses.cross_entropy = sum(each * predicts) * (1.0 / count);
  losses.total = losses.total.empty() ? losses.cross_entropy : losses.cross_entropy + losses.total;
  return losses;
}

StateTree transformer_caches(const TransformerConfig& config, int64_t batch) {
  StateTree layer;
  for (const char* name : {"k", "v"})
    layer.set(name, zeros({config.compute, {batch, config.seq, config.dim}}));
  StateTree tree;
  for (const LayerRun& run : runs_of(config)) tree.set(run.name, stack_of(run, layer));
  return tree;
}

namespace {

// One layer of a step of generation. Slices: its parameters "p" and its caches "cache".
Scanned decode_layer(const TransformerConfig& config, const ScanStep& at) {
  const Tree& p = at.slices["p"];
  const Tree& cache = at.slices["cache"];
  const Tree& attn = p["attn"];
  Value x = at.carries, position = at.invariants;
  Value n = norm(config, p["attn_norm"], x);
  const Value qkv = products(config, attn, n);
  const auto part = [&](int64_t i) { return reshape(slice(qkv, 2, i, i + 1, 1), x.type().dims); };
  Value k = dynamic_update(cache["k"], part(1), position, 1);
  Value v = dynamic_update(cache["v"], part(2), position, 1);
  Value q = part(0);
  Value mixed = attention_decode(q, k, v, position + 1, {.heads = config.heads, .causal = true});
  x = x + dot(mixed, weight(config, attn["o"]));
  MoeResult routed;
  Scanned next{.carries = feed_forward_or_experts(config, p, x, routed)};
  next.stacked.set("k", k);
  next.stacked.set("v", v);
  return next;
}

}  // namespace

DecodeResult transformer_decode(const TransformerConfig& config, const Tree& p, Value token,
                                Value position, const Tree& caches, Loc loc) {
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
  Tree after;
  for (const LayerRun& run : runs_of(step)) {
    Tree layers;
    layers.set("p", p[run.name]);
    layers.set("cache", caches[run.name]);
    const Scanned done =
        scan(token.builder(),
             {.length = run.count,
              .carries = x,
              .invariants = position,
              .stacked = layers,
              .name = run.name},
             [&](const ScanStep& layer) { return decode_layer(run.config, layer); });
    x = done.carries;
    after.set(run.name, done.stacked);
  }
  Value logits = transformer_logits(step, p, norm(step, p["final_norm"], x));
  return {.logits = reshape(logits, {batch, config.vocab}), .caches = after};
}

}  // namespace gangway::programs
