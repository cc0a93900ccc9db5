// GPT-2's sizes (Radford et al. 2019) as models of this library, to compare speed at.
//
// The shapes are GPT-2's and the parts this library's (transformer.h): RMS norm, no biases. The
// vocabulary is padded to 50304, a multiple of 128.
// Threads: pure.
#pragma once

#include "programs/models/transformer.h"

namespace gangway::programs {

TransformerConfig gpt2_124m();  // 12 layers, dim 768
TransformerConfig gpt2_xl();    // 48 layers, dim 1600: 1.5B parameters

// Returns the model with `experts` experts of the same hidden size in every layer; a token goes to
// two. `groups` divides the batch.
TransformerConfig with_experts(TransformerConfig model, int64_t experts, int64_t groups);

}  // namespace gangway::programs
