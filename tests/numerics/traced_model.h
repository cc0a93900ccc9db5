// The repository's transformer as a function of its parameters and tokens, and the same model of
// the reference. The numerics tests compare the two.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "programs/models/transformer.h"
#include "tests/interpret/literal.h"
#include "tests/numerics/reference_model.h"

namespace gangway::numerics {

inline constexpr int kBatch = 4;

// A model small enough for the reference executor, and the name that tests print for it.
struct Model {
  std::string name;
  programs::TransformerConfig config;
};
// Models that are dense or MoE, dropless or with a capacity that drops, tied or not, gated or not,
// with either activation, rematerialised or not.
std::vector<Model> models();
inline std::string name_of(const Model& model) { return model.name; }

reference::ModelConfig reference_of(const programs::TransformerConfig& config);

// Parameters: those of the model, by name, then "tokens": i32[kBatch, seq], cut over "data".
// Results: "loss", the gradient of every parameter in order, and with experts "load": [layers,
// experts].
Function loss_and_gradients(const programs::TransformerConfig& config, const Mesh& mesh);

// Parameters and tokens of a seed whose routing has no near tie, and the reference's results.
struct Example {
  uint64_t seed = 0;
  reference::Tensors parameters;
  std::vector<int32_t> tokens;
  reference::Evaluation expected;
};
// The parameters are exact in `dtype`. Seeds are tried from `first_seed` on.
Example example_of(const programs::TransformerConfig& config, DType dtype, uint64_t first_seed);

// The reference names the tensors of each layer ("layers.0.attn.q"). The model has the weights of
// queries, keys and values side by side in one, and stacks layers ("layers.attn.qkv").
//
// side_by_side() puts these three together, layer by layer ("layers.0.attn.qkv"); stacked() does
// that and builds the stacks; stack_of() gives the name of the stack that has a tensor.
reference::Tensors side_by_side(const reference::Tensors& tensors);
reference::Tensors stacked(const reference::Tensors& tensors);
std::string stack_of(const std::string& name);

// The example's arguments and expected gradients in the order of loss_and_gradients().
std::vector<Literal> arguments_of(const Function& function, const Example& example);
std::vector<Literal> gradients_of(const Function& function, const Example& example);

}  // namespace gangway::numerics
