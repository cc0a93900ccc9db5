// Helpers of the rows of composites: precision and broadcasting along the last dimension.
//
// A composite computes in f32 for bf16 (f64 for f64) and rounds its results once. On a card's
// tensor cores attention rounds its weights too, which are multiplied in bf16.
#pragma once

#include <numeric>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/build/ops.h"
#include "ir/op_table/rows/values.h"
#include "ir/op_table/rule.h"

namespace gangway::internal {

inline Value raise(Value x, Loc loc) { return convert(x, accumulator(x.dtype()), loc); }

// reduced[...] repeated along a new last dimension: [..., d] like `x`.
inline Value along_last(Value reduced, Value x, Loc loc) {
  std::vector<int64_t> map(static_cast<size_t>(reduced.rank()));
  std::iota(map.begin(), map.end(), int64_t{0});
  return broadcast_in(reduced, x.type().dims, map, loc);
}
inline Value sum_last(Value x, Loc loc) { return along_last(sum(x, {-1}, loc), x, loc); }
inline Value mean_last(Value x, Loc loc) { return along_last(mean(x, {-1}, loc), x, loc); }

// Over all dimensions but the last: [..., d] -> [d].
inline Value sum_leading(Value x, Loc loc) {
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 1));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return x.builder().emit1(Op::reduce_sum, {x}, {{"axes", axes}}, loc);
}

inline OpRow composite(OpRow row) {
  row.family = OpFamily::kComposite;
  return row;
}

}  // namespace gangway::internal
