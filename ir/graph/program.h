// A program: a graph whose nodes are function calls on slices, state, inputs, sources, transfers
// and control; what a user runs. A run is one execution of it (a training step).
//
// Compact: a node stands for its shards on all devices, so a program over N devices has as many
// nodes as over one.
//
// Invariants (ir/verify/verify.h)
//  - An edge names a smaller node (no cycles), a result that exists, and types and shardings agree
//    at both ends.
//  - A call whose operand lies on another slice reads it through a transfer node.
//  - Names of state, inputs, sources and outputs are unique within their kind; so are the names of
//    functions and of slices. A call's function is over the mesh of the call's slice.
//  - A state is updated at most once a run, by a call on the slice where it lives.
//  - A source's `attrs` hold its kind as the string "kind".
//  - A state with `stacked` has as many rows as layers, and a component of its name stays in front
//    of the layer's number; no two states hold layers of one name.
//
// Threads: a value, immutable once built.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/function.h"
#include "ir/graph/numerics.h"

namespace gangway {

enum class NodeKind : uint8_t {
  kState,     // Named, lives across runs on its slice; `function`, without parameters and with one
              // result, computes its first value.
  kInput,     // Given with each run.
  kSource,    // A data pipeline that runs on the hosts; `attrs` configure it (data).
  kCall,      // A function on a slice.
  kTransfer,  // From the operand's slice to this node's.
  kOutput,    // Handed to the client as an array.
  kIf,        // Reserved.
  kWhile,     // Reserved.
};
const char* to_string(NodeKind kind);

// When a node runs, with respect to its inputs. Every kind but kAll is reserved for asynchronous
// training.
enum class FiringKind : uint8_t { kAll, kAny, kQuorum, kBounded };
const char* to_string(FiringKind kind);
struct FiringRule {
  FiringKind kind = FiringKind::kAll;
  int64_t low = 0;   // kQuorum: k. kBounded: lo.
  int64_t high = 0;  // kBounded: hi.
  friend bool operator==(const FiringRule&, const FiringRule&) = default;
};

struct Edge {
  uint32_t node = kNone;
  uint32_t result = 0;
  int64_t version = 0;  // Runs back: 0 is this run's value. Others are reserved.
  friend bool operator==(const Edge&, const Edge&) = default;
};

// Result `result` of a call becomes the new value of a state, in place, when the run commits.
struct StateUpdate {
  uint32_t result = 0;
  uint32_t state = kNone;  // A kState node.
  friend bool operator==(const StateUpdate&, const StateUpdate&) = default;
};

// A state that holds equal layers, one in each row of dimension 0. In files and in other tools each
// layer is a tensor of its own, with its number in front of the last `name_tail` components of the
// state's name: rows of "params.layers.attn.o" are "params.layers.<number>.attn.o" for a name_tail
// of 2. If the layers of several states are numbered together, `base` replaces the component in
// front of the number: rows of "params.layers_from_2.attn.o" are "params.layers.<number>.attn.o"
// for a base of "layers".
struct StackedLayers {
  int64_t first = 0;  // The number of row 0.
  int64_t count = 0;  // Rows.
  uint32_t name_tail = 0;
  std::string base = {};  // Empty: the state's own component.
  friend bool operator==(const StackedLayers&, const StackedLayers&) = default;
};
std::string layer_name(std::string_view state, const StackedLayers& stacked, int64_t row);

struct ProgramNode {
  NodeKind kind = NodeKind::kCall;
  std::string name;
  uint32_t slice = 0;
  uint32_t function = kNone;  // Index into Program::functions.
  std::vector<Edge> inputs;
  std::vector<StateUpdate> updates;        // kCall only.
  std::vector<Type> types;                 // Global types of its results.
  std::vector<AxisPlacements> placements;  // One for each type.
  Attrs attrs;                             // kSource: its configuration.
  std::optional<StackedLayers> stacked;    // kState only.
  FiringRule firing;
  LocEntry loc;
};

// A slice as the program names it: a mesh of virtual devices that the controller maps to physical
// ones.
struct ProgramSlice {
  std::string name;
  Mesh mesh;
  friend bool operator==(const ProgramSlice&, const ProgramSlice&) = default;
};

struct Program {
  std::string name;
  std::vector<ProgramSlice> slices;
  std::vector<std::shared_ptr<const Function>> functions;
  std::vector<ProgramNode> nodes;
  // A float scalar output (a loss) that must be finite, else the run fails; empty: none.
  std::string finite_output;
  Numerics numerics;

  // The node of this kind with this name; kNone if there is none.
  uint32_t find(NodeKind kind, std::string_view name) const;

  // Wire form in a file, written under a temporary name and renamed. load() verifies everything it
  // reads.
  void save(const std::string& path) const;
  static Program load(const std::string& path);
};

bool same_graph(const Program& a, const Program& b);

}  // namespace gangway
