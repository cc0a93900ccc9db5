// An independent double-precision evaluation of the training model: loss, its parts and the
// gradient of every parameter, by hand-written backpropagation.
//
// Training is judged against it, so it shares nothing with the op table, autodiff or any kernel.
//
// The model is a pre-norm decoder-only transformer over bytes, tokens: i32[batch, seq]:
//
//   x = embed[tokens] (+ pos)
//   each layer:  x += o(attention(q(n), k(n), v(n))), n = rms_norm(x); causal,
//                     scale 1 / sqrt(dim / heads)
//                x += feed_forward(rms_norm(x)) or moe(rms_norm(x))
//   logits = rms_norm(x) . transpose(embed), or . head
//   loss = mean cross-entropy of tokens[:, 1:] given logits[:, :-1]
//          + sum over layers of balance_coefficient * balance + z_coefficient * z
//
// Parameters, by name:
//   embed [vocab, dim]    pos [seq, dim]    final_norm [dim]    head [dim, vocab]
//   layers.N.attn_norm, layers.N.ffn_norm [dim]    layers.N.attn.{q,k,v,o} [dim, dim]
//   layers.N.ffn.{up,gate} [dim, hidden], layers.N.ffn.down [hidden, dim]
//   layers.N.moe.router [dim, experts], layers.N.moe.{up,gate} [experts, dim, hidden],
//   layers.N.moe.down [experts, hidden, dim]
//
// Threads: pure functions; safe anywhere.
// Errors: kInvalid for parameters or tokens that do not fit the config.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/numerics/reference_moe.h"

namespace gangway::reference {

struct ModelConfig {
  int vocab = 256;
  int seq = 0;
  int dim = 0;
  int layers = 0;
  int heads = 1;
  int hidden = 0;
  bool positional = true;
  bool gated = false;
  bool tied = true;
  Activation activation = Activation::kGeluTanh;
  double epsilon = 1e-5;
  MoeConfig moe;                  // moe.experts == 0: every layer is dense.
  std::vector<int> experts = {};  // Experts of each layer. Empty: each has moe.experts.
  MoeConfig moe_of(int layer) const {
    MoeConfig of_layer = moe;
    if (!experts.empty()) of_layer.experts = experts[static_cast<size_t>(layer)];
    return of_layer;
  }
};

using Tensors = std::map<std::string, Vec>;

struct Evaluation {
  double loss = 0;
  double cross_entropy = 0;
  double balance = 0;  // Sum over layers, before its coefficient.
  double z = 0;        // Sum over layers, before its coefficient.
  Tensors gradients;
  std::vector<std::vector<std::vector<int64_t>>> expert_loads;  // [layers][groups][experts]
  int64_t dropped = 0;
  double routing_margin = 0;  // Finite differences and f32 comparisons hold only well above 0.
};

// The shape of every parameter of the model.
std::map<std::string, std::vector<int64_t>> parameter_shapes(const ModelConfig& config);

// Norm weights near 1, everything else normal with deviation 1 / sqrt(rows).
Tensors random_parameters(const ModelConfig& config, uint64_t seed);

Evaluation evaluate(const ModelConfig& config, const Tensors& parameters,
                    std::span<const int32_t> tokens, int batch);

}  // namespace gangway::reference
