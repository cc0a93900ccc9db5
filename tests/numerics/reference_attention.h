// Causal multi-head attention of the reference model, one score at a time.
//
// Threads: pure functions; safe anywhere.
#pragma once

#include "tests/numerics/reference_math.h"

namespace gangway::reference {

struct AttentionShape {
  int batch, seq, dim, heads;
};

struct AttentionTrace {
  Vec q, k, v;        // [batch, seq, dim]
  Vec probabilities;  // [batch, heads, seq, seq]; 0 above the diagonal
};

struct AttentionGradients {
  Vec q, k, v;
};

// trace.q, k and v are given; fills the probabilities and returns [batch, seq, dim].
Vec attention(const AttentionShape& shape, AttentionTrace& trace);
AttentionGradients attention_backward(const AttentionShape& shape, const AttentionTrace& trace,
                                      View dy);

}  // namespace gangway::reference
