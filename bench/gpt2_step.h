// The training step on which GPT-2's shapes are measured, on tokens that the caller gives.
//
// Threads: pure functions.
// Errors: kInvalid for an unknown model or type.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/program.h"
#include "programs/models/transformer.h"

namespace gangway::bench {

// "124m", "xl" (1.5B parameters), "124m-moe", "tiny"; "f32", "bf16". `seq` 0: the model's.
programs::TransformerConfig model_config(const std::string& model, const std::string& dtype,
                                         int64_t seq = 0);

// Returns a step like programs::train_step(), with the inputs "tokens" i32[batch, seq], "lr" and
// "step".
Program gpt2_step(const programs::TransformerConfig& config, int64_t batch, const Mesh& mesh);

}  // namespace gangway::bench
