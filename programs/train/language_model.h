// The programs of language-model training on text: a training step, an evaluation and a generation
// step, which share their parameters as state.
//
// Run-time inputs of train_step: "lr" and "step" (f32[]). Outputs: "loss", "cross_entropy",
// "grad_norm" (f32[]) and, with experts, "balance" (f32[]) and "load" (f32[layers, experts]). A
// step whose loss, gradients or learning rate are not finite, or whose "step" is below 1, is not
// committed.
//
// A strategy says what is cut over which axes of the mesh; without one the batch is, over all of
// them but "model" and "context". The three programs are made for one strategy: they share the
// parameters. Where model.activations names an activation too, its rule goes before the strategy's
// of that priority.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/program.h"
#include "programs/models/transformer.h"
#include "programs/optim/adamw.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

struct LanguageModelConfig {
  TransformerConfig model;
  AdamwConfig optimizer;
  int64_t batch = 32;  // Sequences in one step, over all devices and microbatches.
  // Microbatches whose gradients are averaged before the update: a loop, so a program is as large
  // for many, and what they sum up is reduced once.
  int64_t accumulate = 1;
  std::string text;   // A file or a folder on every host.
  uint64_t seed = 1;  // Of the parameters and of the order of the data.
};

Program train_step(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy);
Program train_step(const LanguageModelConfig& config, const Mesh& mesh);

// Output: "cross_entropy" (f32[]): mean over a batch of held-out windows; the source's position
// chooses the batch.
Program evaluate(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy);
Program evaluate(const LanguageModelConfig& config, const Mesh& mesh);

// Feeds one token of one sequence and samples the next. Inputs: "forced" (i32[1]: the token to
// feed, or -1 for the one sampled last), "temperature" (f32[]; 0 is greedy), "key" (i32[2], new for
// each token), "position" (i32[]: how many tokens were fed before, below model.seq). State:
// "generate.token" and the caches. Output: "token" (i32[1]). A batch of one is not cut, whatever
// the strategy.
Program generate_step(const LanguageModelConfig& config, const Mesh& mesh,
                      const Strategy& strategy);
Program generate_step(const LanguageModelConfig& config, const Mesh& mesh);

}  // namespace gangway::programs
