// Helpers of the op rows that write factors: einsum-like text for fixed shapes, functions for the
// families.
//
//   einsum_factors(call, "...d, d -> ...d; whole d")      rms_norm
//   einsum_factors(call, "gsd, gsh, g -> edh; reduce g")  a letter is one index, `...` any leading
//                                                         ones; kPass unless said otherwise
#pragma once

#include <string_view>

#include "ir/op_table/op.h"

namespace gangway::internal {

// Collects factors named i, j, k ... whose dimensions start as -1 everywhere.
class FactorList {
 public:
  explicit FactorList(const OpCall& call);
  Factor& add(FactorKind kind, int64_t size);
  // Dimension `dim` of input 0 and dimension `result_dim` of every result; -1: in none.
  Factor& add(FactorKind kind, int64_t size, int dim, int result_dim);
  Factor& last() { return factors_.back(); }
  Factors take() { return std::move(factors_); }

 private:
  size_t inputs_, results_;
  Factors factors_;
};

Factors einsum_factors(const OpCall& call, std::string_view spec);

Factors elementwise_factors(const OpCall& call);  // All inputs and results of one shape.
Factors whole_factors(const OpCall& call);        // Nothing may be cut.
// Elementwise, except that the last index is whole.
Factors last_whole_factors(const OpCall& call);
Factors reshape_factors(const OpCall& call);

}  // namespace gangway::internal
