// What lowerings trace beside ordinary ops: where this device is, and collectives over the axes
// that cut the lowered factor. For local functions alone.
//
// Threads: one thread, the builder's.
#pragma once

#include <string>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/op_table/lowering.h"
#include "ir/types/reduction.h"

namespace gangway::internal {

// Which member this device is, i32[].
inline Value member_index(const LoweringCall& c) {
  return c.builder.emit1(Op::axis_index, {}, {{"axes", c.axes}}, Loc::current());
}

// All of them in one meeting.
inline std::vector<Value> all_reduce(const LoweringCall& c, const std::vector<Value>& terms,
                                     Reduction reduction) {
  return c.builder.emit(Op::all_reduce, terms,
                        {{"axes", c.axes}, {"reduction", std::string(to_string(reduction))}},
                        Loc::current());
}

// What a member sends in an all-reduce of so many bytes.
inline double all_reduce_bytes(double bytes, int64_t members) {
  return 2 * bytes * static_cast<double>(members - 1) / static_cast<double>(members);
}

// The factor of that name takes the lowering; it may be cut then.
inline Factors lowered(Factors factors, char name, std::string_view lowering) {
  for (Factor& factor : factors) {
    if (factor.name == name) factor.lowering = lowering;
  }
  return factors;
}

}  // namespace gangway::internal
