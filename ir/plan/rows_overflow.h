// A device that is to get more rows than its plan has room for (products of dropless experts:
// ir/transforms/conversions/expert_exchange.h): the error of such a run, and the program with more
// room, with which it can be run again, since it has not committed.
// Threads: pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/program.h"
#include "runtime/base/error.h"

namespace gangway {

// kOverflow.
Error rows_overflow(int64_t received, int64_t bound);

// Whether a run of the program may fail so.
bool may_overflow(const Program& program);
// With at least twice the room everywhere. Repeated, it ends with a program that can't overflow.
Program with_more_room(const Program& program);
// The bound that such a program has in place of this one.
double with_more_room(double bound);

// The bounds of a program, each once, with the user's line: "model.cc:14".
struct RowsBound {
  std::string at;
  double bound = 0;
  friend auto operator<=>(const RowsBound&, const RowsBound&) = default;
};
std::vector<RowsBound> rows_bounds(const Program& program);

}  // namespace gangway
