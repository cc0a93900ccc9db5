// The model of programs/models/transformer.h, where every layer is a copy in the graph with states
// of its own. The scan over stacked layers must give the same results.
//
// Parameters are those of the model, with layers.N.* for each layer.
// Threads: traces on the builder's thread.
#pragma once

#include "programs/models/transformer.h"

namespace gangway::numerics {

StateTree unrolled_parameters(const programs::TransformerConfig& config);

// Like programs::transformer_loss(), but rules on activations are not applied.
programs::Losses unrolled_loss(const programs::TransformerConfig& config, const Tree& p,
                               Value tokens);

}  // namespace gangway::numerics
