// A pre-norm decoder-only transformer over tokens, dense or with a mixture of experts in every
// layer.
//
//   x = embed[tokens] (+ pos)
//   each layer:  x += o(attention(qkv(n))),  n = rms_norm(x), causal
//                x += feed_forward(rms_norm(x)) or moe(rms_norm(x))
//   logits = rms_norm(x) . transpose(embed), or . head
//
// Parameters (a tree): embed [vocab, dim], pos [seq, dim], final_norm [dim], head [dim, vocab] when
// not tied; and of every layer, stacked in front of these dimensions (ir/build/program_builder.h):
// layers.{attn_norm, ffn_norm} [dim], layers.attn.qkv [dim, 3, dim], layers.attn.o [dim, dim],
// layers.ffn.{up, gate} [dim, hidden], layers.ffn.down [hidden, dim], or layers.moe.*
// (programs/models/moe.h). Files hold the layers apart, and the weights of queries, keys and values
// too, as layers.0.attn.q [dim, dim] (checkpoint/tensor_parts.h).
//
// Queries, keys and values are one product, of a weight with dimension 1 for the three (MaxText's
// qkv_proj lies alike). A cut of dimension 2 gives a device whole heads of all three, where one of
// [dim, 3 * dim] would cut between them, and a row has the bytes of GPT-2's c_attn. The three begin
// as weights of their own. If fewer keys and values than queries are wanted (grouped-query
// attention), queries have another length: then they are a weight of their own, and keys and values
// one of [dim, 2, key/value heads * head size], which is cut in the same way.
//
// The layers are one scan, so that a program of 96 layers is as large as one of 3. In a pyramid
// each run of equal layers is one scan. The stacks behind the first run are called layers_from_N,
// where N is the number of their first layer. Files name these layers like all others,
// layers.N.attn.o.
//
// Parameters are stored in `storage` (f32: master weights; f64 in numerics tests) and computations
// use `compute` (f32, bf16, f64).
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
  int64_t hidden = 512;  // Hidden units of the feed-forward layer, or of each expert.
  bool positional = true;
  bool gated = false;  // down . (activation(x . gate) * (x . up)), as in Llama.
  bool tied = true;
  Activation activation = Activation::kGelu;
  DType storage = DType::kF32;
  DType compute = DType::kF32;
  bool remat = false;  // Recompute each layer's inside in the backward pass.
  MoeConfig moe;
  // Number of experts of each layer; empty: moe.experts in all. A pyramid has more of them in
  // deeper layers (DeepSpeed-MoE, Rajbhandari et al. 2022, section 4.1). 0: a dense layer.
  std::vector<int64_t> experts = {};
  // How activations are cut, by their names (programs/models/activations.h).
  ActivationRules activations;
};

// Throws kInvalid when sizes do not fit one another, or a rule matches no activation.
void require_valid(const TransformerConfig& config);

// Whether any layer has experts.
bool has_experts(const TransformerConfig& config);
// Number of experts of each layer: 0 if the layer is dense.
std::vector<int64_t> experts_by_layer(const TransformerConfig& config);

StateTree transformer_parameters(const TransformerConfig& config);
int64_t parameter_count(const TransformerConfig& config);

struct Losses {
  Value total;  // cross_entropy and the coefficients times the auxiliary losses.
  // Nats a token, mean over the predicted positions: all but the first of each sequence.
  Value cross_entropy;
  Value balance;  // Mean over the layers that have experts; empty when none has.
  // f32[layers that have experts, experts]; empty when none has. A pyramid's is as wide as its
  // widest layer, with zeros behind the experts of the others.
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

// One token against the key/value caches, for generation. `caches` has k and v, [layers, batch,
// seq, dim], for each run of equal layers, under the name of the run's parameters.
struct DecodeResult {
  Value logits;  // [batch, vocab]
  Tree caches;
};
StateTree transformer_caches(const TransformerConfig& config, int64_t batch);
// token: i32[batch]; position: i32[], the number of tokens that are in the caches already. Rules on
// activations are for whole sequences and are not applied here.
DecodeResult transformer_decode(const TransformerConfig& config, const Tree& p, Value token,
                                Value position, const Tree& caches, Loc loc = Loc::current());

}  // namespace gangway::programs
