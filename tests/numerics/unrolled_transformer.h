// The model of programs/models/transformer.h with every layer a copy in the graph and states of its
// own: what the scan over stacked layers must equal.
//
// Parameters are those of the model, with layers.N.* for each layer.
// Threads: traces on the builder's thread.
#pragma once

#include "programs/models/transformer.h"

namespace gangway::numerics {

StateTree unrolled_parameters(const programs::TransformerConfig& config);

// As programs::transformer_loss; rules on activations are not applied.
programs::Losses unrolled_loss(const programs::TransformerConfig& config, const Tree& p,
                               Value tokens);

}  // namespace gangway::numerics
