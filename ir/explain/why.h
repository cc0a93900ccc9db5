// Why a program runs as it does: explains the decisions that the compiler took about the value,
// node or line that a user names. For `gangway graph --why` and Executable::explain().
//
// `what` is one of
//   a name             of a state, input, source, call, transfer or output, or a part of it that
//                      few have: "params.layers.attn.o"
//   %14, @layer.%3     a value of a function that a call runs, or of a body in it, as `--level
//                      sharding` and with_shardings() (placed_functions.h) number them;
//                      without a name, of the program's only call
//   model.cc:80        what stands on a line of the user's source
//
// For a value it reports its sharding on each mesh axis, through which ops and from which
// annotation that came, and what other choices would have moved; the readers for which it is
// converted, by which collective, what each device sends and about how long that takes, and from
// where else the conversion could have begun. For a state, input, source and call it reports its
// devices, and why they were chosen.
//
// Threads: pure functions.
// Errors: kInvalid if the program has no such thing; the message lists what it has.
// Cost: for a value, linear in its function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph/program.h"
#include "ir/plan/plan.h"
#include "ir/transforms/compile_record.h"

namespace gangway {

struct ExplainedProgram {
  const Program& program;
  const Plan& plan;                                // The program's plan.
  const std::map<uint32_t, CompileRecord>& calls;  // Indexed by node of the program.
  // For each slice: why it lies on its devices; empty: they were named, not chosen.
  std::vector<std::string> placed = {};
};

std::string why(const ExplainedProgram& explained, const std::string& what);

}  // namespace gangway
