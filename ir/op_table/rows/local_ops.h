// Ops that distributed ops trace in addition to ordinary ones: this device's member number, and
// collectives over the axes that cut the lowered factor. For local functions alone.
//
// Threads: one thread, the builder's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/op_table/distributed_op.h"
#include "ir/types/reduction.h"

namespace gangway::internal {

// This device's member number, i32[].
inline Value member_index(const DistributedCall& c) {
  return c.builder.emit1(Op::axis_index, {}, {{"axes", c.axes}}, Loc::current());
}

// Reduces all terms in one collective.
inline std::vector<Value> all_reduce(const DistributedCall& c, const std::vector<Value>& terms,
                                     Reduction reduction) {
  return c.builder.emit(Op::all_reduce, terms,
                        {{"axes", c.axes}, {"reduction", std::string(to_string(reduction))}},
                        Loc::current());
}

// A scan over 0 .. length - 1: `body` gets the carries, the invariants and which iteration it is,
// i32[], all in its own builder, and gives the next carries. Unlike scan() it keeps nothing for a
// gradient, which a distributed op never has.
using LoopBody = std::function<std::vector<Value>(const std::vector<Value>& carries,
                                                  const std::vector<Value>& invariants, Value at)>;
inline std::vector<Value> loop(Builder& builder, int64_t length, const std::vector<Value>& carries,
                               const std::vector<Value>& invariants, const LoopBody& body) {
  Builder inner(builder, "loop");
  const auto seen = [&](const char* name, const std::vector<Value>& values) {
    std::vector<Value> parameters;
    for (const Value& value : values)
      parameters.push_back(inner.parameter(cat(name, parameters.size()), value.type()));
    return parameters;
  };
  const std::vector<Value> c = seen("carry", carries), i = seen("invariant", invariants);
  const std::vector<Value> next = body(c, i, inner.parameter("at", i32()));
  for (size_t r = 0; r < next.size(); ++r) inner.result(cat("carry", r), next[r]);
  std::vector<Value> operands = carries;
  operands.insert(operands.end(), invariants.begin(), invariants.end());
  operands.push_back(iota(builder, i32({length}), 0));
  return builder.emit(Op::scan, operands,
                      {{"length", length},
                       {"carries", static_cast<int64_t>(carries.size())},
                       {"invariants", static_cast<int64_t>(invariants.size())}},
                      Loc::current(), std::make_shared<const Function>(inner.build()));
}

// Bytes that a member sends in an all-reduce of `bytes` bytes.
inline double all_reduce_bytes(double bytes, int64_t members) {
  return 2 * bytes * static_cast<double>(members - 1) / static_cast<double>(members);
}

// The factor of that name takes the distributed op; it may be cut then.
inline Factors distributed(Factors factors, char name, std::string_view distributed_op) {
  for (Factor& factor : factors) {
    if (factor.name == name) factor.distributed_op = distributed_op;
  }
  return factors;
}

}  // namespace gangway::internal
