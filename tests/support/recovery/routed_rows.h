// Rows that go to the experts which are chosen for them, for tests of programs whose devices may
// get more rows than they have room for (ir/plan/rows_overflow.h).
//
// Threads: pure.
#pragma once

#include "ir/build/ops.h"

namespace gangway {

// The product of each row of x with the weights of its expert. A device has room for `bound` times
// its own rows; 0: for all rows.
//
//   x: T[groups, tokens, dim]   choice: i32[groups, tokens, 1]   w: T[experts, dim, hidden]
inline Value through_experts(Value x, Value choice, Value w, double bound,
                             Loc loc = Loc::current()) {
  Route route = moe_route(choice, w.type().dims[0], 0, loc);
  route.bound = bound;
  return grouped_dot(moe_dispatch(x, route, loc), w, route, loc);
}

}  // namespace gangway
