// The function that computes a state's first value on its devices.
//
// Its random numbers depend on the state's name and the program's seed alone, so a state begins
// the same whatever else the program holds and however it is sharded. Stacked layers begin as the
// states of their own names would, by one loop over their keys: the function does not grow with
// their number.
#pragma once

#include <string>

#include "ir/build/program_builder.h"

namespace gangway {

// A function "init" without parameters and with one result, "value". The key is part of it only
// where the initialiser uses it.
Function trace_initializer(const StateSpec& spec, const std::string& state, uint64_t seed,
                           const Mesh& mesh, Loc loc);

}  // namespace gangway
