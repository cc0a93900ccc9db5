// Pictures and data of graphs for people and tools: Graphviz DOT, and JSON.
//
// DOT, for `dot -Tsvg`: one box for each node with its op, type, sharding and the user's line;
// scopes ("layers.0") are clusters; the functions that a program's calls name follow its nodes,
// then the bodies of their scans and calls, each once with its trip count. The functions that
// compute the first values of states are left out, and so are constants; many states, parameters or
// results are folded by their names, and scopes where a function has more nodes than a picture
// shows.
//
// JSON: docs/graph_json.md explains each field, docs/graph.schema.json is its JSON Schema. A
// function becomes {"version", "bodies"} and the fields of a function. Bytes that are not UTF-8
// become U+FFFD.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

// Grows when a field is removed or changes its meaning; new fields do not change it.
inline constexpr int kGraphJsonVersion = 1;

std::string to_dot(const Function& function);
std::string to_dot(const Program& program);
std::string to_json(const Function& function);
std::string to_json(const Program& program);

}  // namespace gangway
