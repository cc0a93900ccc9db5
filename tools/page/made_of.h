// Tells from which ops of the user's program the compiler has made an op of a device, if it has
// joined some.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/graph/function.h"

namespace gangway::tool {

// Adds "op", "line" and "scopes" of a node to an object. If the node was made of other ops, also
// adds "made_of": a list of objects with these three fields.
void add_place(nlohmann::ordered_json& json, const Function& function, NodeId node);

}  // namespace gangway::tool
