// The reference executor: slow, obviously right, in double precision. Used by tests and tools only.
//
// Every op has one direct reference (reference.h); composites do not go through their
// decomposition.
// Threads: pure functions.
// Errors: kInvalid when the arguments do not fit the parameters; kUnimplemented for custom_call,
// whose kernel is the user's.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "ir/types/literal.h"

namespace gangway {

struct InterpretOptions {
  bool round = true;  // Round every result to its element type; false: floats stay doubles.
};

// A function in the global view: its results, from one literal for each parameter.
std::vector<Literal> interpret(const Function& function, const std::vector<Literal>& arguments,
                               InterpretOptions options = {});

// A local function on every device of its mesh in lockstep: arguments[device][parameter], and so
// the results.
std::vector<std::vector<Literal>> interpret_local(
    const Function& function, const std::vector<std::vector<Literal>>& arguments,
    InterpretOptions options = {});

// One op alone; collectives are not.
std::vector<Literal> evaluate(const OpCall& call, const std::vector<Literal>& inputs,
                              InterpretOptions options = {});

}  // namespace gangway
