// A pre-norm decoder-only transformer over tokens, dense or with a mixture of experts in every
// layer.
//
//   x = embed[tokens] (+ pos)
//   each layer:  x += o(attention(q(n), k(n), v(n))),  n = rms_norm(x), causal
//                x += feed_forward(rms_norm(x)) or moe(rms_norm(x))
//   logits = rms_norm(x) . transpose(embed), or . head
//
// Parameters (a tree): embed [vocab, dim], pos [seq, dim], final_norm [dim], head [dim, vocab] when
// not tied; and of every layer, stacked in front of these dimensions (ir/build/program_builder.h):
// layers.{attn_norm, ffn_norm} [dim], layers.attn.{q, k, v, o} [dim, dim], layers.ffn.{up, gate}
// [dim, hidden], layers.ffn.down [hidden, dim], or layers.moe.* (programs/models/moe.h). Files hold
// the layers apart, as layers.0.attn.q.
//
// The layers are one scan, so a program of 96 is as large as one of 3. In a pyramid equal layers
// that follow one another are one; the stacks of those behind the first are layers_from_N, N being
// the number of their first layer. Files name their layers as all others, layers.N.attn.q.
//
// Parameters are kept in `storage` (f32: master weights; f64 in numerics tests) and computed with
// in `compute` (f32, bf16, f64).
// Threads: traces on the builder's thread.
#pragma once

#include <vector>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "programs/models/activations.h"
#include "programs/models/moe.h"

namespace gangway::programs {

enum class Activation { kGelu, kSilu };

struct TransformerConfig {
  int64_t vocab = 256;
  int64_t seq = 128;
  int64_t dim = 128;
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t hidden = 512;  // Of the feed-forward layer, or of each expert.
  bool positional = true;
  bool gated = false;  // down . (activation(x . gate) * (x . up)), as in Llama.
  bool tied = true;
  Activation activation = Activation::kGelu;
  DType storage = DType::kF32;
  DType compute = DType::kF32;
  bool remat = false;  // Recompute each layer's inside in the backward pass.
  MoeConfig moe;
  // Experts of each layer where they are not moe.experts in all: a pyramid, with more of them in
  // deeper layers (DeepSpeed-MoE, Rajbhandari et al. 2022, section 4.1). 0: a dense layer.
  std::vector<int64_t> experts = {};
  // How activations are cut, by their names (programs/models/activations.h).
  ActivationRules activations;
};

// Throws kInvalid when sizes do not fit one another, or a rule matches no activation.
void require_valid(const TransformerConfig& config);

// Whether any layer has experts.
bool has_experts(const TransformerConfig& config);
// How many each layer has: 0 where it is dense.
std::vector<int64_t> experts_by_layer(const TransformerConfig& config);

StateTree transformer_parameters(const TransformerConfig& config);
int64_t parameter_count(const TransformerConfig& config);

struct Losses {
  Value total;          // cross_entropy and the coefficients times the auxiliary losses.
  Value cross_entropy;  // Nats a token, mean over the predicted positions: all but the first of
                        // each sequence.
  Value balance;        // Mean over the layers that have experts; empty when none has.
  // f32[layers that have experts, experts]; empty when none has. In a pyramid as wide as its widest
  // layer, with zeros behind the experts of the others.
  Value load;
};

// The last hidden state of tokens: i32[batch, seq] -> [batch, seq, dim], before the head; auxiliary
// losses in `losses`.
Value transformer_hidden(const TransformerConfig& config, const Tree& p, Value tokens,
                         Losses* losses = nullptr, Loc loc = Loc::current());
// [batch, seq, dim] -> [batch, seq, vocab].
Value transformer_logits(const TransformerConfig& config, const Tree& p, Value hidden,
                         Loc loc = Loc::current());
// Next-token loss of tokens: i32[batch, seq].
Losses transformer_loss(const TransformerConfig& config, const Tree& p, Value tokens,
                        Loc loc = Loc::current());

// One token against the key/value caches, for generation; caches: of each run of equal layers,
// under the name of their parameters, k and v [layers, batch, seq, dim].
struct DecodeResult {
  Value logits;  // [batch, vocab]
  Tree caches;
};
StateTree transformer_caches(const TransformerConfig& config, int64_t batch);
// token: i32[batch]; position: i32[], how many tokens are in the caches already. Rules on
// activations are for whole sequences: they are not applied here.
DecodeResult transformer_decode(const TransformerConfig& config, const Tree& p, Value token,
                                Value position, const Tree& caches, Loc loc = Loc::current());

}  // namespace gangway::programs
