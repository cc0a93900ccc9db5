// The reference executor: slow, obviously right, in double precision. Used by tests and tools only.
//
// Every op has one direct reference (reference.h); composites do not go through their
// decomposition.
//
// Threads: pure functions.
// Errors: kInvalid if the arguments do not fit the parameters, or a node does not fit the mesh;
// kUnimplemented for custom_call, whose kernel is the user's.
#pragma once

#include <vector>

#include "ir/graph/function.h"
#include "tests/interpret/literal.h"

namespace gangway {

// Bytes that one node of a local function sent, if devices exchange values as the reference of its
// op does. A value that is on another device counts for that device.
struct Traffic {
  NodeId node = 0;
  std::vector<int64_t> sent;  // Bytes that each device sent.
};

struct InterpretOptions {
  bool round = true;  // Round every result to its element type; false: floats stay doubles.
  std::vector<Traffic>* traffic = nullptr;  // Gets one entry for each node that looks at the mesh.
  // Gets the operations of attention's products on each device of a local function. Only keys that
  // a query sees count.
  std::vector<double>* attention_flops = nullptr;
};

// Runs a function in the global view, with one literal for each parameter.
std::vector<Literal> interpret(const Function& function, const std::vector<Literal>& arguments,
                               InterpretOptions options = {});

// Runs a local function on every device of its mesh in lockstep. Takes
// arguments[device][parameter], and returns [device][result].
std::vector<std::vector<Literal>> interpret_local(
    const Function& function, const std::vector<std::vector<Literal>>& arguments,
    InterpretOptions options = {});

// Runs one op alone, which is no collective.
std::vector<Literal> evaluate(const OpCall& call, const std::vector<Literal>& inputs,
                              InterpretOptions options = {});
// Runs one op of a local function on one device of its mesh. If the op draws a part of a random
// tensor, the reference draws the whole tensor and cuts it.
std::vector<Literal> evaluate_on(const Mesh& mesh, int64_t device, const OpCall& call,
                                 const std::vector<Literal>& inputs, InterpretOptions options = {});

}  // namespace gangway
