// Which ops of the user's program an op of a device was made of, where the compiler has joined
// some.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/graph/function.h"

namespace gangway::tool {

// Adds "op", "line" and "scopes" of a node to an object, and "made_of" where it was made of others:
// a list of objects of these three.
void add_place(nlohmann::ordered_json& json, const Function& function, NodeId node);

}  // namespace gangway::tool
