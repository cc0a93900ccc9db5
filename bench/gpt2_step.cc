#include "bench/gpt2_step.h"

#include "ir/build/autodiff.h"
#include "programs/models/gpt2.h"
#include "programs/optim/adamw.h"
#include "runtime/base/error.h"

namespace gangway::bench {

using programs::TransformerConfig;

TransformerConfig model_config(const std::string& model, const std::string& dtype, int64_t seq) {
  GW_REQUIRE(dtype == "f32" || dtype == "bf16", "dtype: expected f32 or bf16, got ", dtype);
  TransformerConfig config = model == "xl" ? programs::gpt2_xl() : programs::gpt2_124m();
  if (model == "tiny") {
    config = {.vocab = 512, .seq = 64, .dim = 64, .layers = 2, .heads = 2, .hidden = 256};
  } else if (model == "124m-moe") {
    config = programs::with_experts(config, 8, 1);
  } else {
    GW_REQUIRE(model == "xl" || model == "124m", "model: expected 124m, 124m-moe, xl or tiny, got ",
               model);
  }
  if (seq > 0) config.seq = seq;
  config.compute = dtype == "bf16" ? DType::kBF16 : DType::kF32;
  return config;
}

Program gpt2_step(const TransformerConfig& config, int64_t batch, const Mesh& mesh) {
  ProgramBuilder b("train_step", mesh, 1);
  const Tree params = b.state("params", transformer_parameters(config));
  const Value tokens = b.input("tokens", i32({batch, config.seq}), {{"data", shard(0)}});
  const auto loss_of = [&](const Tree& p, Value t) { return transformer_loss(config, p, t).total; };
  const auto [loss, grads] = value_and_grad(loss_of)(params, tokens);
  programs::adamw(b, params, grads, {});
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

}  // namespace gangway::bench
