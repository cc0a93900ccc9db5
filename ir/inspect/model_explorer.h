// A program in the JSON graph format of Model Explorer (google-ai-edge/model-explorer), for people
// who know its page: `gangway graph FILE --model-explorer > step.json`, and open step.json there.
//
// The first graph, "program", has the program's nodes and, in place of a call, those of its
// function; its groups are slices, then calls and the components of states' names, then the user's
// scopes. A function that several calls name, and the bodies of scans and calls, are graphs of
// their own, which the page opens from the nodes that name them. The functions that compute the
// first values of states are left out. Names are text: those of groups have "_" where the format
// would read a separator ("/" and ";").
//
// Threads: a pure function on a verified program.
// Cost: O(nodes), plus the cost of cost_of().
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

std::string to_model_explorer(const Program& program);

}  // namespace gangway
