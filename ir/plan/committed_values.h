// The values, besides its guarded output, that must be finite for a run of a guarded program to
// commit: values that a local function computes first and then puts into states.
//
// They are float inputs of the nodes behind the commit point. For a state whose new value is copied
// there: the new value. For a state that AdamW writes in place: the gradient, the learning rate,
// both corrections and the factor of the gradient; not the old values, since they were checked when
// they were written.
//
// A gradient is left out where the guarded output or one of those scalars is sure to be not finite
// when the gradient is not: a factor that is computed from the gradients' norm is, and the pass
// that summed the squares has then looked at every element.
//
// Threads: pure.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

// Ascending. Each of them is kept until the last node that reads it, behind the commit point.
std::vector<ValueId> committed_values(const LocalFunction& local);

}  // namespace gangway
