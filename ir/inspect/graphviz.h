// Pictures and data of graphs for people and tools: Graphviz DOT, and JSON.
//
// DOT, for `dot -Tsvg`: one box for each node with its op, type, sharding and the user's line;
// scopes ("layers.0") are clusters; the functions that a program's calls name follow its nodes,
// then the bodies of their scans and calls, each once with its trip count. What computes the first
// values of states is left out, and so are constants; many states, parameters or results are folded
// by their names, and scopes where a function has more nodes than a picture shows.
//
// JSON: docs/graph_json.md says what each field is, docs/graph.schema.json is its JSON Schema. Of a
// function it is {"version", "bodies"} and the fields of one. Bytes that are not UTF-8 become
// U+FFFD.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

// Larger where a field is gone or means something else; new fields leave it as it is.
inline constexpr int kGraphJsonVersion = 1;

std::string to_dot(const Function& function);
std::string to_dot(const Program& program);
std::string to_json(const Function& function);
std::string to_json(const Program& program);

}  // namespace gangway
