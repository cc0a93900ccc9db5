#include "programs/train/language_model.h"

#include <functional>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
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

// Cuts gradients.
using Place = std::function<Tree(const Tree&)>;

// Returns "loss" and "cross_entropy" of tokens, i32[batch, seq], with experts "balance" and "load",
// and "grads", a tree like that of the parameters.
Tree differentiate(const TransformerConfig& model, const Tree& params, Value tokens,
                   const Place& place) {
  Losses losses;
  auto loss = [&](const Tree& p, Value t) {
    losses = transformer_loss(model, p, t);
    return losses.total;
  };
  const Tree grads = value_and_grad(loss)(params, tokens).second;
  Tree step;
  step.set("loss", losses.total);
  step.set("cross_entropy", losses.cross_entropy);
  if (!losses.balance.empty()) {
    step.set("balance", losses.balance);
    step.set("load", losses.load);
  }
  step.set("grads", place(grads));
  return step;
}

// Returns zeros of the types that differentiate() gives; tracing it shows them.
Tree zero_sums(Builder& b, const TransformerConfig& model, int64_t batch) {
  Builder trial("trial", b.function().mesh);
  const Tree params =
      transformer_parameters(model).map([&](const std::string& name, const StateSpec& spec) {
        return trial.parameter(name, spec.type);
      });
  const Value tokens = trial.parameter("tokens", i32({batch, model.seq}));
  return differentiate(model, params, tokens, [](const Tree& grads) { return grads; })
      .map([&](const std::string&, const Value& of) { return b.constant(of.type(), 0); });
}

// Adds two trees of the same names.
Tree sum_of(const Tree& a, const Tree& b) {
  std::vector<Value> terms;
  b.for_each([&](const std::string&, const Value& term) { terms.push_back(term); });
  size_t next = 0;
  return a.map([&](const std::string&, const Value& value) { return value + terms[next++]; });
}

// Averages over microbatches; tokens: i32[batch, seq], cut over its rows. Microbatch i takes every
// accumulate-th row, so that each device keeps its rows. The loop only adds to the sums, so they
// stay partial in it and are reduced once, behind it, except those that `place` cuts.
Tree accumulate(const LanguageModelConfig& config, const Tree& params, Value tokens,
                const Place& place) {
  const TransformerConfig& model = config.model;
  const int64_t parts = config.accumulate, micro = config.batch / parts;
  if (parts == 1) return differentiate(model, params, tokens, place);
  Builder& b = tokens.builder();
  const auto microbatch = [&](const ScanStep& at) -> Scanned {
    // Nothing differentiates the loop, so no iteration keeps residuals for that.
    const Tree weights = at.invariants.map(
        [](const std::string&, const Value& weight) { return stop_gradient(weight); });
    return {.carries = sum_of(at.carries, differentiate(model, weights, at.slices, place))};
  };
  const Tree sums =
      scan(b,
           {.length = parts,
            .carries = zero_sums(b, model, micro),
            .invariants = params,
            .stacked = transpose(reshape(tokens, {micro, parts, model.seq}), {1, 0, 2}),
            .name = "microbatch"},
           microbatch)
          .carries;
  const double share = 1.0 / static_cast<double>(parts);
  return sums.map([&](const std::string&, const Value& sum) { return sum * share; });
}

// The axes that cut a batch must also cut each of its microbatches, and the groups in which the
// experts' tokens are routed, so that no row moves for them.
void require_batch(const char* what, const LanguageModelConfig& config, const Mesh& mesh,
                   const Strategy& strategy) {
  const int64_t rows = parts_of(mesh, strategy.batch, 0),
                columns = parts_of(mesh, strategy.batch, 1);
  const int64_t whole = config.accumulate * rows;
  GW_REQUIRE(config.accumulate > 0 && config.batch % whole == 0, what,
             ": the batch must divide over microbatches and devices: batch is ", config.batch, ", ",
             config.accumulate, " microbatches, ", rows,
             " devices that it is cut over: expected a multiple of ", whole);
  GW_REQUIRE(!has_experts(config.model) || config.model.moe.groups % rows == 0, what,
             ": moe groups must divide over the devices: groups is ", config.model.moe.groups, ", ",
             rows, " devices that the batch is cut over: expected a multiple of ", rows,
             ", or more of the mesh's axes for something else");
  GW_REQUIRE(config.model.seq % columns == 0, what,
             ": sequences must divide over the devices: seq is ", config.model.seq, ", ", columns,
             " devices that it is cut over");
}

// Adds the strategy's rules for activations behind the model's own.
LanguageModelConfig placed(LanguageModelConfig config, const Strategy& strategy) {
  ActivationRules& rules = config.model.activations;
  rules.insert(rules.end(), strategy.activations.begin(), strategy.activations.end());
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
  require_batch("train_step", config, mesh, strategy);
  ProgramBuilder b("train_step", mesh, config.seed);
  Tree params = parameters_of(b, config, strategy);
  Value tokens = batch_of(b, "tokens", config, strategy);
  // Gradients are cut as soon as they are computed.
  const auto place = [&](const Tree& grads) {
    return b.shard_all("params", grads, below("params", strategy.gradients));
  };
  const Tree step = accumulate(placed(config, strategy), params, tokens, place);
  AdamwResult update = adamw(b, params, step["grads"], config.optimizer, strategy.moments);
  for (const auto* name : {"loss", "cross_entropy"}) b.output(name, step[name]);
  b.output("grad_norm", update.grad_norm);
  if (step.contains("balance")) {
    for (const auto* name : {"balance", "load"}) b.output(name, step[name]);
  }
  b.require_finite("loss");
  return b.build();
}

Program train_step(const LanguageModelConfig& config, const Mesh& mesh) {
  return train_step(config, mesh, data_parallel(mesh));
}

Program evaluate(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy) {
  require_batch("evaluate", config, mesh, strategy);
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
