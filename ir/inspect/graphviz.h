// Pictures and data of graphs for people and tools: Graphviz DOT, and JSON.
//
// DOT: one box for each node with its op, type, sharding and the user's line; scopes
// ("layers.0") are clusters; the functions of a program follow its nodes, then
// the bodies of scans and calls. Pipe it into `dot -Tsvg`.
//
// JSON of a function: {"name", "mesh": [{"name", "size"}], "local", "parameters": [{"id", "name",
// "type", "placements", "sharding"}], "nodes": [{"id", "op", "inputs", "attrs", "region", "where",
// "line", "results": [{"id", "type", "sharding"}], "body"?}], "results": [{"id", "name"}],
// "bodies"}; of a program: {"name", "finite", "slices", "functions", "bodies", "nodes"}. A fusion's
// body is a function; that of a scan or call is a number, which counts in "bodies". Reals that JSON
// cannot say (inf, nan) are strings.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

std::string to_dot(const Function& function);
std::string to_dot(const Program& program);
std::string to_json(const Function& function);
std::string to_json(const Program& program);

}  // namespace gangway
