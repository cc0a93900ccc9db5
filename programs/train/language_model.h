// The programs of language-model training on text: a training step, an evaluation and a generation
// step, which share their parameters as state.
//
// Run-time inputs of train_step: "step" and, without optimizer.rate, "lr" (f32[]). Outputs: "loss",
// "cross_entropy", "grad_norm" (f32[]) and, with experts, "balance" (f32[]) and "load" (f32[layers,
// experts]). A step whose loss, gradients or learning rate are not finite, or whose "step" is below
// 1, is not committed.
//
// A strategy says which tensors are cut over which axes of the mesh. Without one only the batch is
// cut, over all axes but "model" and "context". The three programs share the parameters, so they
// are built for one strategy. If model.activations has a rule for an activation too, it goes before
// the strategy's rule of that priority.
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
  // Microbatches whose gradients are averaged before the update. They are a loop, so that a program
  // of many is as large as one of few, and their sums are reduced once.
  int64_t accumulate = 1;
  std::string text;   // A file or a folder on every host.
  uint64_t seed = 1;  // Seed of the parameters and of the order of the data.
};

Program train_step(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy);
Program train_step(const LanguageModelConfig& config, const Mesh& mesh);

// Output: "cross_entropy" (f32[]): mean over a batch of held-out windows. The source's position
// chooses the batch.
Program evaluate(const LanguageModelConfig& config, const Mesh& mesh, const Strategy& strategy);
Program evaluate(const LanguageModelConfig& config, const Mesh& mesh);

// Feeds one token of one sequence and samples the next. Inputs: "forced" (i32[1]: the token to
// feed, or -1 to feed the one that was sampled last), "temperature" (f32[]; 0 is greedy), "key"
// (i32[2], new for each token), "position" (i32[]: the number of tokens fed before, below
// model.seq). State: "generate.token" and the caches. Output: "token" (i32[1]). The batch of one is
// not cut, whatever the strategy.
Program generate_step(const LanguageModelConfig& config, const Mesh& mesh,
                      const Strategy& strategy);
Program generate_step(const LanguageModelConfig& config, const Mesh& mesh);

}  // namespace gangway::programs
