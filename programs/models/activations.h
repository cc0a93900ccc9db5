// The activations of a transformer that have a name, so that a strategy can say how they are cut
// without code in the model: rules by name, as for parameters.
//
//   embedded     the tokens' rows of the embedding, positions added: [batch, seq, dim]
//   residual     input and output of each half of a layer: [batch, seq, dim]
//   attn.in      the normalised input of attention: [batch, seq, dim]
//   attn.mixed   attention's weighted values, before the last projection: [batch, seq, dim]
//   attn.out     the term that attention adds to the residual: [batch, seq, dim]
//   ffn.in       the normalised input of a feed-forward layer or a dense expert: [batch, seq, dim]
//   ffn.hidden   the result of the activation function: [batch, seq, hidden]
//   ffn.out      the term added to the residual, or to the experts' output: [batch, seq, dim]
//   moe.in       the normalised input of a layer of experts: [batch, seq, dim]
//   moe.rows     the rows that go to the experts and those that come back from them:
//                [groups, slots, dim]; the slots of an expert lie together, so a rule cuts slots
//                only over those of its axes that divide the layer's experts
//   moe.out      the term that the experts add to the residual: [batch, seq, dim]
//   final        the normalised last hidden state: [batch, seq, dim]
//   logits       [batch, seq, vocab]
//
// A dense layer has no "moe." names. A layer of experts has "ffn." names only for a dense expert
// beside them. Rules for names that a model does not have cut nothing.
// Threads: as the builder.
#pragma once

#include <string_view>
#include <vector>

#include "ir/build/program_builder.h"

namespace gangway::programs {

using ActivationRules = std::vector<PlacementRule>;

// Throws kInvalid for a rule whose pattern matches none of the names above.
void require_known(const ActivationRules& rules);

// Returns each axis, in the order given, that divides the part of `amount` that the axes returned
// before it leave.
std::vector<std::string> axes_that_divide(const Mesh& mesh, const std::vector<std::string>& axes,
                                          int64_t amount);

// Returns the activation `name` placed by the rules (Builder::shard): for each priority the first
// rule that matches applies. If none matches, returns it as it is.
Value placed(const ActivationRules& rules, std::string_view name, Value value,
             Loc loc = Loc::current());

}  // namespace gangway::programs
