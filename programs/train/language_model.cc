#include "programs/train/language_model.h"

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "programs/strategies/data_parallel.h"

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

Step differentiate(ProgramBuilder& b, const TransformerConfig& model, const Strategy& strategy,
                   const Tree& params, Value tokens) {
  Step step;
  auto loss = [&](const Tree& p, Value t) {
    step.losses = transformer_loss(model, p, t);
    return step.losses.total;
  };
  step.grads = value_and_grad(loss)(params, tokens).second;
  if (!strategy.gradients.empty())
    step.grads = b.shard_all("params", step.grads, below("params", strategy.gradients));
  return step;
}

Value average(Value total, Value term, int64_t parts) {
  term = term * (1.0 / static_cast<double>(parts));
  return total ? total + term : term;
}

// Averages over microbatches; tokens: i32[batch, seq], cut over its rows. Microbatch i takes every
// accumulate-th row, so that each device's rows stay its own.
Step accumulate(ProgramBuilder& b, const LanguageModelConfig& config, const Strategy& strategy,
                const Tree& params, Value tokens) {
  const int64_t parts = config.accumulate, micro = config.batch / parts, seq = config.model.seq;
  if (parts == 1) return differentiate(b, config.model, strategy, params, tokens);
  tokens = reshape(tokens, {micro, parts, seq});
  Step total;
  for (int64_t i = 0; i < parts; ++i) {
    Value rows = reshape(slice(tokens, 1, i, i + 1), {micro, seq});
    Step step = differentiate(b, config.model, strategy, params, rows);
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

// The axes that cut a batch cut each of its microbatches, and the groups that experts' tokens are
// routed in, so that no row moves for them.
void require_batch(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy) {
  const int64_t rows = parts_of(mesh, strategy.batch, 0),
                columns = parts_of(mesh, strategy.batch, 1);
  const int64_t whole = config.accumulate * rows;
  GW_REQUIRE(config.accumulate > 0 && config.batch % whole == 0,
             "train_step: the batch must divide over microbatches and devices: batch is ",
             config.batch, ", ", config.accumulate, " microbatches, ", rows,
             " devices that it is cut over: expected a multiple of ", whole);
  GW_REQUIRE(!has_experts(config.model) || config.model.moe.groups % rows == 0,
             "train_step: moe groups must divide over the devices: groups is ",
             config.model.moe.groups, ", ", rows,
             " devices that the batch is cut over: expected a multiple of ", rows,
             ", or more of the mesh's axes for something else");
  GW_REQUIRE(config.model.seq % columns == 0,
             "train_step: sequences must divide over the devices: seq is ", config.model.seq, ", ",
             columns, " devices that it is cut over");
}

// The model with its activations placed as the strategy says.
LanguageModelConfig placed(LanguageModelConfig config, const Strategy& strategy) {
  config.model.activations = strategy.activations;
  return config;
}

Value batch_of(ProgramBuilder& b, const std::string& name, const LanguageModelConfig& config,
               const Strategy& strategy) {
  const Type type = i32({config.batch, config.model.seq});
  return b.source(name, windows(config, name == "heldout"), type, strategy.batch);
}

Tree parameters_of(ProgramBuilder& b, const LanguageModelConfig& config, const Strategy& strategy) {
  return b.state("params", transformer_parameters(config.model),
                 below("params", strategy.parameters));
}

}  // namespace

Program train_step(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy) {
  require_batch(config, mesh, strategy);
  ProgramBuilder b("train_step", mesh, config.seed);
  Tree params = parameters_of(b, config, strategy);
  Value tokens = batch_of(b, "tokens", config, strategy);
  Step step = accumulate(b, placed(config, strategy), strategy, params, tokens);
  AdamwResult update = adamw(b, params, step.grads, config.optimizer, strategy.moments);
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

Program train_step(const LanguageModelConfig& config, const Mesh& mesh) {
  return train_step(config, mesh, data_parallel(mesh));
}

Program evaluate(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy) {
  require_batch(config, mesh, strategy);
  ProgramBuilder b("evaluate", mesh, config.seed);
  Tree params = parameters_of(b, config, strategy);
  Value tokens = batch_of(b, "heldout", config, strategy);
  const TransformerConfig model = placed(config, strategy).model;
  b.output("cross_entropy", transformer_loss(model, params, tokens).cross_entropy);
  return b.build();
}

Program evaluate(const LanguageModelConfig& config, const Mesh& mesh) {
  return evaluate(config, mesh, data_parallel(mesh));
}

Program generate_step(const LanguageModelConfig& config, const Mesh& mesh) {
  return generate_step(config, mesh, data_parallel(mesh));
}

Program generate_step(const LanguageModelConfig& config, const Mesh& mesh,
                      const Strategy& strategy) {
  const TransformerConfig& model = config.model;
  ProgramBuilder b("generate", mesh, config.seed);
  Tree params = parameters_of(b, config, strategy);
  Value last = b.state("generate.token", zeros(i32({1})));
  Tree caches = b.state("generate", transformer_caches(model, 1));
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
  b.update(caches, step.caches);
  b.output("token", sampled);
  return b.build();
}

}  // namespace gangway::programs
