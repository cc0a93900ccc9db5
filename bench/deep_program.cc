#include "bench/deep_program.h"

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/graph/bodies.h"
#include "programs/strategies/strategies.h"
#include "programs/train/language_model.h"

namespace gangway::bench {

Program gpt3(const Gpt3& of) {
  constexpr int64_t kDim = 12'288, kBatch = 512;
  const programs::LanguageModelConfig config{
      .model = {.vocab = 50'257,
                .seq = 2048,
                .dim = kDim,
                .layers = of.layers,
                .heads = 96,
                .hidden = 4 * kDim,
                .compute = DType::kBF16,
                .remat = true,
                .moe = {.experts = 64, .top_k = 2, .groups = kBatch, .capacity_factor = 2}},
      .batch = kBatch,
      .text = "/text"};
  const Mesh mesh{{{"data", of.data}, {"model", of.model}, {"expert", of.expert}}};
  return train_step(config, mesh,
                    programs::strategy_of("zero3+megatron+expert_parallel", mesh, config.model));
}

namespace {

constexpr int64_t kDim = 16, kHidden = 64, kHeads = 2, kVocab = 32, kBatch = 4, kSeq = 8;

StateTree layer_specs() {
  const auto spec = [](Dims dims) { return zeros({DType::kF32, std::move(dims)}); };
  StateTree layer;
  layer.set("attn_norm", spec({kDim}));
  for (const char* name : {"q", "k", "v", "o"}) layer.set(name, spec({kDim, kDim}));
  layer.set("ffn_norm", spec({kDim}));
  layer.set("up", spec({kDim, kHidden}));
  layer.set("down", spec({kHidden, kDim}));
  return layer;
}

StateTree specs_of(int64_t layers) {
  StateTree all, specs;
  for (int64_t i = 0; i < layers; ++i) all.append(layer_specs());
  specs.set("embed", zeros(f32({kVocab, kDim})));
  specs.set("layers", all);
  return specs;
}

Value layer(const Tree& p, Value x) {
  Value n = rms_norm(x, p["attn_norm"]);
  const Value mixed =
      attention(dot(n, p["q"]), dot(n, p["k"]), dot(n, p["v"]), {.heads = kHeads, .causal = true});
  x = x + dot(mixed, p["o"]);
  n = rms_norm(x, p["ffn_norm"]);
  return x + dot(gelu(dot(n, p["up"])), p["down"]);
}

Value hidden(const Tree& p, Value x) {
  int64_t next = 0;
  for (const Tree& of_layer : p["layers"]) {
    const Builder::Scope scope(x.builder(), cat("layers.", next++));
    x = remat(x.builder(), [&] { return layer(of_layer, x); });
  }
  return x;
}

void update(ProgramBuilder& b, const Tree& states, const Tree& gradient, Value lr) {
  const auto leaves = [](const Tree& tree) {
    std::vector<Value> all;
    tree.for_each([&](const std::string&, const Value& value) { all.push_back(value); });
    return all;
  };
  const std::vector<Value> ps = leaves(states["params"]), ms = leaves(states["m"]),
                           vs = leaves(states["v"]), gs = leaves(gradient);
  for (size_t i = 0; i < ps.size(); ++i) {
    const AdamwState next = adamw({ps[i], ms[i], vs[i]}, gs[i], {lr, lr, lr, lr}, {});
    b.update(ps[i], next.p);
    b.update(ms[i], next.m);
    b.update(vs[i], next.v);
  }
}

}  // namespace

Program unrolled(int64_t layers) {
  ProgramBuilder b("step", Mesh{{{"data", 2}, {"model", 2}}});
  const StateTree specs = specs_of(layers);
  // Megatron's cut of a feed-forward layer.
  const std::vector<PlacementRule> rules = {{"*.up", {{"model", shard(1)}}, 1},
                                            {"*.down", {{"model", shard(0)}}, 1}};
  Tree states;
  for (const char* name : {"params", "m", "v"}) states.set(name, b.state(name, specs, rules));
  const Tree& p = states["params"];
  const Value tokens = b.input("tokens", i32({kBatch, kSeq}), {{"data", shard(0)}});
  const Value labels = b.input("labels", i32({kBatch, kSeq}), {{"data", shard(0)}});
  const Value lr = b.input("lr", f32());
  const Value x = hidden(p, take(p["embed"], tokens));
  const Value loss = mean(cross_entropy(dot(x, transpose(p["embed"])), labels));
  update(b, states, gradients(loss, p), lr);
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

size_t nodes_with_bodies(const Function& function) {
  BodyTable bodies;
  bodies.add(function);
  size_t nodes = function.nodes.size();
  for (uint32_t i = 0; i < bodies.size(); ++i) nodes += bodies[i].nodes.size();
  return nodes;
}

}  // namespace gangway::bench
