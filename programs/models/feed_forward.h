// A feed-forward layer: two products with an activation function between them, and with a gate a
// third product (Shazeer 2020). A dense layer has one, and so has a layer of experts with a dense
// expert beside them.
//
// Parameters: up (and gate, when gated) [dim, hidden], down [hidden, dim].
// Threads: traces on the builder's thread.
#pragma once

#include <functional>

#include "ir/build/tree.h"
#include "programs/models/activations.h"

namespace gangway::programs {

// A gated layer applies it to the gate's product, another one to the up product.
using ActivationFunction = std::function<Value(Value)>;

// Returns the factor of `down`. `project` multiplies the layer's input by the weight of this name
// in `p`.
Value hidden_units(const Tree& p, const ActivationFunction& activation,
                   const std::function<Value(const char*)>& project);

// x: [batch, seq, dim], in the compute type. `rules` place ffn.in, ffn.hidden and ffn.out.
Value feed_forward(const Tree& p, Value x, const ActivationFunction& activation,
                   const ActivationRules& rules, Loc loc = Loc::current());

}  // namespace gangway::programs
