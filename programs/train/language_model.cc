#include "programs/train/language_model.h"

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"

namespace gangway::programs {
namespace {

SourceSpec windows(const LanguageModelConfig& config, bool heldout) {
  Attrs attrs;
  attrs.set("path", config.text);
  attrs.set("heldout", heldout);
  attrs.set("seed", static_cast<int64_t>(config.seed));
  return {"text", attrs};
}

// Losses and gradients of one microbatch, tokens: i32[batch, seq].
struct Step {
  Losses losses;
  Tree grads;
};

Step differentiate(const TransformerConfig& model, const Tree& params, Value tokens) {
  Step step;
  auto loss = [&](const Tree& p, Value t) {
    step.losses = transformer_loss(model, p, t);
    return step.losses.total;
  };
  step.grads = value_and_grad(loss)(params, tokens).second;
  return step;
}

Value average(Value total, Value term, int64_t parts) {
  term = term * (1.0 / static_cast<double>(parts));
  return total ? total + term : term;
}

// Averages over microbatches; tokens: i32[batch, seq], cut over its rows. Microbatch i takes every
// accumulate-th row, so that each device's rows stay its own.
Step accumulate(const LanguageModelConfig& config, const Tree& params, Value tokens) {
  const int64_t parts = config.accumulate, micro = config.batch / parts, seq = config.model.seq;
  if (parts == 1) return differentiate(config.model, params, tokens);
  tokens = reshape(tokens, {micro, parts, seq});
  Step total;
  for (int64_t i = 0; i < parts; ++i) {
    Value rows = reshape(slice(tokens, 1, i, i + 1), {micro, seq});
    Step step = differentiate(config.model, params, rows);
    Losses& sum = total.losses;
    sum.total = average(sum.total, step.losses.total, parts);
    sum.cross_entropy = average(sum.cross_entropy, step.losses.cross_entropy, parts);
    if (step.losses.balance) {
      sum.balance = average(sum.balance, step.losses.balance, parts);
      sum.load = average(sum.load, step.losses.load, parts);
    }
    total.grads = step.grads.map([&](const std::string& name, const Value& grad) {
      Value before;
      if (i > 0)
        total.grads.for_each([&](const std::string& n, const Value& v) {
          if (n == name) before = v;
        });
      return average(before, grad, parts);
    });
  }
  return total;
}

void require_batch(const LanguageModelConfig& config, const Mesh& mesh) {
  const int64_t devices = mesh.devices();
  GW_REQUIRE(config.accumulate > 0 && config.batch % (config.accumulate * devices) == 0,
             "train_step: the batch must divide over microbatches and devices: batch is ",
             config.batch, ", ", config.accumulate, " microbatches, ", devices, " devices");
  GW_REQUIRE(config.model.moe.experts == 0 || config.model.moe.groups % devices == 0,
             "train_step: moe groups must divide over the devices: groups is ",
             config.model.moe.groups, ", ", devices, " devices");
}

}  // namespace

Program train_step(const LanguageModelConfig& config, const Mesh& mesh) {
  require_batch(config, mesh);
  ProgramBuilder b("train_step", mesh, config.seed);
  Tree params = b.state("params", transformer_parameters(config.model));
  Value tokens = b.source("tokens", windows(config, false), i32({config.batch, config.model.seq}),
                          {{"data", shard(0)}});
  Step step = accumulate(config, params, tokens);
  AdamwResult update = adamw(b, params, step.grads, config.optimizer);
  b.output("loss", step.losses.total);
  b.output("cross_entropy", step.losses.cross_entropy);
  b.output("grad_norm", update.grad_norm);
  if (step.losses.balance) {
    b.output("balance", step.losses.balance);
    b.output("load", step.losses.load);
  }
  // A finite loss may have gradients that are not; they must not reach the parameters either.
  b.output("guard", step.losses.total + update.rate * 0.0);
  b.require_finite("guard");
  return b.build();
}

Program evaluate(const LanguageModelConfig& config, const Mesh& mesh) {
  require_batch(config, mesh);
  ProgramBuilder b("evaluate", mesh, config.seed);
  Tree params = b.state("params", transformer_parameters(config.model));
  Value tokens = b.source("heldout", windows(config, true), i32({config.batch, config.model.seq}),
                          {{"data", shard(0)}});
  b.output("cross_entropy", transformer_loss(config.model, params, tokens).cross_entropy);
  return b.build();
}

Program generate_step(const LanguageModelConfig& config, const Mesh& mesh) {
  const TransformerConfig& model = config.model;
  ProgramBuilder b("generate", mesh, config.seed);
  Tree params = b.state("params", transformer_parameters(model));
  Value last = b.state("generate.token", zeros(i32({1})));
  std::vector<std::pair<Value, Value>> caches;
  for (int64_t i = 0; i < model.layers; ++i) {
    StateSpec cache = zeros({model.compute, {1, model.seq, model.dim}});
    std::string name = "generate.layers." + std::to_string(i);
    Value keys = b.state(name + ".k", cache);
    caches.emplace_back(keys, b.state(name + ".v", cache));
  }
  Value forced = b.input("forced", i32({1}));
  Value temperature = b.input("temperature", f32());
  Value key = b.input("key", i32({2}));
  Value position = b.input("position", i32());

  Value fed = where(ge(forced, 0), forced, last);
  DecodeResult step = transformer_decode(model, params, fed, position, caches);
  // Gumbel-max: argmax(logits / T + g) samples softmax(logits / T); T = 0 is greedy.
  Value uniform = random_uniform(key, f32({1, model.vocab}));
  Value gumbel = -log(-log(uniform + 1e-7) + 1e-7);
  Value scores =
      convert(step.logits, DType::kF32) + gumbel * broadcast_to(temperature, {1, model.vocab});
  Value sampled = argmax(scores, 1);
  b.update(last, sampled);
  for (size_t i = 0; i < caches.size(); ++i) {
    b.update(caches[i].first, step.caches[i].first);
    b.update(caches[i].second, step.caches[i].second);
  }
  b.output("token", sampled);
  return b.build();
}

}  // namespace gangway::programs
