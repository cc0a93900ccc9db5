#include "bench/deep_program.h"

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"

namespace gangway::bench {
namespace {

StateTree layer_specs(const DeepProgram& m, bool stacked) {
  const auto spec = [&](Dims dims) {
    if (stacked) dims.insert(dims.begin(), m.layers);
    return zeros({DType::kF32, std::move(dims)});
  };
  StateTree layer;
  layer.set("attn_norm", spec({m.dim}));
  for (const char* name : {"q", "k", "v", "o"}) layer.set(name, spec({m.dim, m.dim}));
  layer.set("ffn_norm", spec({m.dim}));
  if (m.experts > 0) {
    layer.set("router", spec({m.dim, m.experts}));
    layer.set("up", spec({m.experts, m.dim, 4 * m.dim}));
    layer.set("down", spec({m.experts, 4 * m.dim, m.dim}));
  } else {
    layer.set("up", spec({m.dim, 4 * m.dim}));
    layer.set("down", spec({4 * m.dim, m.dim}));
  }
  return layer;
}

Value experts(const DeepProgram& m, const Tree& p, Value n) {
  const Value scores = softmax(dot(n, p["router"]));
  const auto [gate, expert] = top_k(scores, 2);
  const Route route = moe_route(expert, m.experts, 4 * m.seq / m.experts + 1);
  const Value rows = moe_dispatch(n, route);
  const Value hidden = gelu(grouped_dot(rows, p["up"], route));
  return moe_combine(grouped_dot(hidden, p["down"], route), gate, route);
}

Value layer(const DeepProgram& m, const Tree& p, Value x) {
  Value n = rms_norm(x, p["attn_norm"]);
  const Value mixed =
      attention(dot(n, p["q"]), dot(n, p["k"]), dot(n, p["v"]), {.heads = m.heads, .causal = true});
  x = x + dot(mixed, p["o"]);
  n = rms_norm(x, p["ffn_norm"]);
  return x + (m.experts > 0 ? experts(m, p, n) : dot(gelu(dot(n, p["up"])), p["down"]));
}

Value hidden(const DeepProgram& m, const Tree& p, Value x) {
  if (m.scan) {
    return scan(x.builder(), {.length = m.layers, .carries = x, .stacked = p["layers"]},
                [&](const ScanStep& at) -> Scanned {
                  return {.carries =
                              remat(at.builder, [&] { return layer(m, at.slices, at.carries); })};
                })
        .carries;
  }
  int64_t next = 0;
  for (const Tree& of_layer : p["layers"]) {
    const Builder::Scope scope(x.builder(), cat("layers.", next++));
    x = remat(x.builder(), [&] { return layer(m, of_layer, x); });
  }
  return x;
}

}  // namespace

namespace {

// Megatron's cuts, and experts over theirs.
std::vector<PlacementRule> layer_rules() {
  return {{"*.up", {{"tensor", shard(1)}}, 1}, {"*.down", {{"tensor", shard(0)}}, 1}};
}
std::vector<PlacementRule> stacked_rules() {
  return {{"*.q|*.k|*.v", {{"tensor", shard(2)}}, 1},
          {"*.o", {{"tensor", shard(1)}}, 1},
          {"*.up", {{"expert", shard(1)}, {"tensor", shard(3)}}, 1},
          {"*.down", {{"expert", shard(1)}, {"tensor", shard(2)}}, 1}};
}

}  // namespace

DeepProgram gpt3(int64_t data, int64_t tensor, int64_t expert) {
  return {.mesh = {{{"data", data}, {"tensor", tensor}, {"expert", expert}}}};
}

DeepProgram unrolled(int64_t layers) {
  return {.layers = layers,
          .dim = 16,
          .heads = 2,
          .experts = 0,
          .vocab = 32,
          .batch = 4,
          .seq = 8,
          .scan = false,
          .mesh = {{{"data", 2}, {"tensor", 2}, {"expert", 1}}}};
}

Program trace(const DeepProgram& m) {
  ProgramBuilder b("step", m.mesh);
  StateTree specs;
  specs.set("embed", zeros(f32({m.vocab, m.dim})));
  if (m.scan) {
    specs.set("layers", layer_specs(m, true));
  } else {
    StateTree layers;
    for (int64_t i = 0; i < m.layers; ++i) layers.append(layer_specs(m, false));
    specs.set("layers", layers);
  }
  const std::vector<PlacementRule> rules = m.scan ? stacked_rules() : layer_rules();
  const auto under = [&](const std::string& name) { return b.state(name, specs, rules); };
  const Tree p = under("params"), moments = under("m"), squares = under("v");
  const Value tokens = b.input("tokens", i32({m.batch, m.seq}), {{"data", shard(0)}});
  const Value labels = b.input("labels", i32({m.batch, m.seq}), {{"data", shard(0)}});
  const Value lr = b.input("lr", f32());
  Value x = take(p["embed"], tokens);
  x = hidden(m, p, x);
  const Value logits = dot(x, transpose(p["embed"]));
  const Value loss = mean(cross_entropy(logits, labels));
  const Tree gradient = gradients(loss, p);
  const auto leaves = [](const Tree& tree) {
    std::vector<Value> all;
    tree.for_each([&](const std::string&, const Value& value) { all.push_back(value); });
    return all;
  };
  const std::vector<Value> ps = leaves(p), ms = leaves(moments), vs = leaves(squares),
                           gs = leaves(gradient);
  for (size_t i = 0; i < ps.size(); ++i) {
    const AdamwState next = adamw({ps[i], ms[i], vs[i]}, gs[i], {lr, lr, lr, lr}, {});
    b.update(ps[i], next.p);
    b.update(ms[i], next.m);
    b.update(vs[i], next.v);
  }
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

}  // namespace gangway::bench
