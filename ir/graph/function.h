// A function: a pure tensor-level SSA graph in the global view, with shardings; the unit that is
// compiled.
//
// Invariants (ir/verify/verify.h checks them all)
//  - Values are numbered: first the parameters, then the results of the nodes in order. A node uses
//    smaller numbers only, so the order of nodes is a valid order of execution and a cycle cannot
//    be written.
//  - types[v] is the result of the op's type rule; `shardings` is empty, or has one entry for each
//    value.
//  - `infos` (locations, origins) is a side table: it is outside equality of graphs and the content
//    hash.
//
// After partitioning (ir/transforms) the same form is the *local* function of one device: types are
// local, collectives are nodes, `local` is true.
//
// Threads: a value, immutable once a Builder or a pass has built it; share it as
// shared_ptr<const Function>.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/op_table/op.h"
#include "ir/types/attrs.h"
#include "ir/types/mesh.h"
#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = ~uint32_t{0};

struct Function;

struct Node {
  Op op = Op::constant;
  std::vector<ValueId> inputs;
  Attrs attrs;
  ValueId first_result = 0;  // Results are first_result .. first_result + results - 1.
  uint32_t results = 1;
  // Rematerialisation region: values computed in region r > 0 are computed again in the backward
  // pass, not kept. 0: none.
  uint32_t region = 0;
  // fusion: the chain. scan, call: the function that the node runs, which other nodes may share
  // (bodies.h).
  std::shared_ptr<const Function> body;
};

// A place in the user's program with its scope chain ("layers.0" called from train_step).
struct LocEntry {
  std::string file;
  int line = 0;
  std::string scope;        // The name of the scope that was entered here, or empty.
  uint32_t parent = kNone;  // The enclosing entry of `locs`.
};

enum class Reason : uint8_t { kUser, kGradient, kRematerialize, kPartition, kFuse, kDecompose };

// Facts about a node that are not part of its meaning.
struct NodeInfo {
  uint32_t loc = kNone;  // Index into Function::locs.
  // The node that this one was derived from (in the same function when it was derived).
  NodeId origin = kNone;
  Reason reason = Reason::kUser;
};

struct Parameter {
  std::string name;
  AxisPlacements placements;  // In the user's spelling.
  // One for each placement; placements of lower priority are applied first when other values are
  // cut. Empty: all 0.
  std::vector<int> priorities = {};
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct Function {
  std::string name;
  Mesh mesh;
  bool local = false;
  std::vector<Parameter> parameters;
  std::vector<Type> types;  // Indexed by ValueId; the first parameters.size() are the parameters.
  std::vector<Node> nodes;
  std::vector<ValueId> results;
  std::vector<std::string> result_names;  // One for each result.
  std::vector<Sharding> shardings;        // Indexed by ValueId; empty: not propagated yet.
  std::vector<NodeInfo> infos;            // Indexed by NodeId; one for each node.
  std::vector<LocEntry> locs;

  ValueId value_count() const { return static_cast<ValueId>(types.size()); }
};

// The types of a node's operands.
std::vector<Type> input_types(const Function& function, const Node& node);

// Indexed by value: the node that computes it; kNone for parameters.
std::vector<NodeId> producers(const Function& function);

// A use of a value: as an operand of a node, or as a result of the function.
struct ValueReader {
  NodeId node = kNone;  // kNone: the function gives it.
  size_t operand = 0;
};
// Indexed by value: its readers in the order of nodes, and behind these the results.
std::vector<std::vector<ValueReader>> readers(const Function& function);

// Whether the node is a constant, and all of its elements are `value`.
bool is_filled_with(const Node& node, double value);

// Whether any result of a node has its flag set; `flags` is indexed by value.
bool any_result(const std::vector<bool>& flags, const Node& node);

// Same graph: everything but the side tables.
bool same_graph(const Function& a, const Function& b);

// "model.cc:14 in layers.0 in train_step": the user's line of a node and its scope chain; "unknown"
// without one.
std::string where(const Function& function, NodeId node);
// The same as a comment behind a line of text, "  // model.cc:14 in ..."; empty without a line.
std::string comment_of(const Function& function, NodeId node);
// The innermost file and line alone: "model.cc:14".
std::string line_of(const Function& function, NodeId node);

}  // namespace gangway
