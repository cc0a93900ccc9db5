// The reference executor: slow, obviously right, in double precision. Used by tests and tools only.
//
// Every op has one direct reference (reference.h); composites do not go through their
// decomposition.
// Threads: pure functions.
// Errors: kInvalid when the arguments do not fit the parameters, or a node does not fit the mesh;
// kUnimplemented for custom_call, whose kernel is the user's.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "ir/types/literal.h"

namespace gangway {

// What one node of a local function sent, as the reference of its op does it: each value that lies
// on another device is counted where it lies.
struct Traffic {
  NodeId node = 0;
  std::vector<int64_t> sent;  // Bytes, by device.
};

struct InterpretOptions {
  bool round = true;  // Round every result to its element type; false: floats stay doubles.
  std::vector<Traffic>* traffic = nullptr;  // Gets one entry for each node that looks at the mesh.
  // Of a local function: by device, gets what attention's products took, by what queries see.
  std::vector<double>* attention_flops = nullptr;
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
// The same in a local function, on one device of its mesh: an op that draws a part of a random
// tensor is given as the whole, cut.
std::vector<Literal> evaluate_on(const Mesh& mesh, int64_t device, const OpCall& call,
                                 const std::vector<Literal>& inputs, InterpretOptions options = {});

}  // namespace gangway
