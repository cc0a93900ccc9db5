// A plan: a program lowered to physical devices. The same plan goes to every host; a host takes the
// nodes whose devices it owns. A device that runs several ranks of a slice has a rank stream for
// each. Installed once; a run then names it and adds only its arguments.
//
// Compact: values and nodes are per slice, not per device. Only the lists of PlanRange grow, with
// the number of hosts; nothing grows with the number of shards.
//
// Order: `nodes` is a linear extension of the program's edges, and tickets are granted in it
// (positions.h). A device executes its nodes in ticket order, and a node waits only on lower
// tickets. Therefore neither collectives nor transfers can deadlock.
//
// Commit: calls that update state have two phases. Everything up to `commit_begin` leaves state as
// it was. A kGate node over all devices of the program decides: if every device is ok and the
// guarded output is finite, kCommit nodes run the rest of each call, in place. Otherwise they are
// skipped, the state is as before the run, and the run fails. A plan that updates nothing has a
// gate if an output is guarded.
//
// Threads: a value, immutable once the controller has lowered it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/graph/numerics.h"
#include "ir/graph/program.h"
#include "ir/plan/dispatch.h"

namespace gangway {

// Devices first .. first + count - 1 of a host.
struct PlanRange {
  uint32_t host = 0;  // Index into Plan::hosts.
  uint32_t first = 0;
  uint32_t count = 0;
  friend bool operator==(const PlanRange&, const PlanRange&) = default;
};

// Its devices are virtual: each device of the ranges runs `ranks_per_device` of them, neighbours in
// the mesh. Mesh device d is rank d % ranks_per_device of the ranges' device d / ranks_per_device.
struct PlanSlice {
  Mesh mesh;
  std::vector<PlanRange> ranges;
  uint32_t ranks_per_device = 1;
};

// A function as every device of a slice runs it.
struct LocalFunction {
  // local == true: local types, collectives as nodes, chains fused.
  std::shared_ptr<const Function> function;
  NodeId commit_begin = 0;  // Nodes from here on write state; nodes.size() when there are none.
  // Parameter and result that share one buffer (state, updated in place).
  struct InPlace {
    uint32_t parameter = 0;
    uint32_t result = 0;
    friend bool operator==(const InPlace&, const InPlace&) = default;
  };
  std::vector<InPlace> in_place;
  // A result that must be finite, else the run fails; kNone: none.
  uint32_t finite_result = kNone;
  // Pieces of the function between the points at which a device may switch to another program's
  // work (ir/plan/positions.h). Ascending; the first begins at step 0, and one at the commit point
  // if that lies inside. Empty: the parts before and behind the commit point are one section each.
  struct Section {
    uint32_t begin = 0;       // A step (step_map.h): it may lie in an iteration of a scan.
    int64_t modelled_ns = 0;  // Estimate of the cost model; 0: not known.
    friend bool operator==(const Section&, const Section&) = default;
  };
  std::vector<Section> sections;
  Numerics numerics;
  // Set for a diagnosis (executor/replay/diagnosis.h): devices do not join nodes either. Never
  // sent.
  bool unfused = false;
};

// Nodes of a local function, ascending, that a device runs where the last of them is.
using Together = std::vector<NodeId>;

// A logical sharded buffer that plan nodes read and write.
enum class PlanStorage : uint8_t {
  kState,      // Lives across runs.
  kInput,      // Bound to an array with each run.
  kTemporary,  // Dead when the run ends; may be in the plan's arena when one device's stream alone
               // touches it.
  kOutput,  // Handed to the client: one buffer for each run in flight, then until the client lets
            // go.
};
struct PlanValue {
  std::string name;  // State, input, source and output names; else empty.
  PlanStorage storage = PlanStorage::kTemporary;
  uint32_t slice = 0;
  Type type;  // Global.
  Type local_type;
  Sharding sharding;  // One placement for each axis of the slice's mesh.
};

enum class PlanNodeKind : uint8_t {
  kCall,     // The part of `function` before commit_begin; all of it when nothing is updated.
  kSend,     // inputs[0] to what `peer`, the kReceive later in the order, gives; device i sends to
             // device i of the receiver's slice (equal local types).
  kReceive,  // results[0] is what `peer`, the kSend, sends.
  kSource,   // Fills results[0] from the host's data pipeline.
  kGate,     // Over all devices of the plan, in every slice: every rank ok and every guarded result
             // finite? All other nodes run in one slice.
  kCommit,   // The rest of call `call`, when the gate let it pass.
};

// A value that a node reads.
struct PlanInput {
  PlanInput(uint32_t read) : value(read) {}

  uint32_t value = 0;  // Index into Plan::values.
  friend bool operator==(const PlanInput&, const PlanInput&) = default;
};

struct PlanNode {
  PlanNodeKind kind = PlanNodeKind::kCall;
  std::string name;               // The program's node, for messages and traces.
  uint32_t slice = 0;             // The slice on which it runs.
  uint32_t function = kNone;      // kCall: index into Plan::functions.
  uint32_t call = kNone;          // kCommit: the node of its kCall.
  uint32_t peer = kNone;          // kSend, kReceive: the node of the other end.
  std::vector<PlanInput> inputs;  // kCall: one for each parameter.
  // kCall: one for each result; in-place results name the state's value.
  std::vector<uint32_t> results;
  Attrs attrs;     // kSource: "kind" and its configuration.
  std::string at;  // The user's line.
};

struct PlanState {
  uint32_t value = 0;  // Index into Plan::values.
  // Local; no parameters, one result. Run only when the state is new.
  std::shared_ptr<const Function> init;
};

struct Plan {
  std::string name;                // The program's.
  std::vector<std::string> hosts;  // Names of the executors that take part.
  // The island of each host (ir/plan/islands.h). Empty: all hosts are in one island.
  std::vector<std::string> islands;
  // The number of the machine that each host is on: hosts of one machine share its cores. Empty:
  // all hosts are on one machine.
  std::vector<uint32_t> machines;
  std::vector<PlanSlice> slices;
  std::vector<LocalFunction> functions;
  std::vector<PlanValue> values;
  std::vector<PlanState> states;
  std::vector<PlanNode> nodes;     // In ticket order.
  std::vector<uint32_t> inputs;    // PlanValue indices in the program's order.
  std::vector<uint32_t> sources;   // kSource nodes.
  std::vector<uint32_t> outputs;   // PlanValue indices.
  int64_t runs_in_flight_max = 2;  // Buffers that another stream touches have one slot for each.
  Dispatch dispatch = Dispatch::kParallel;  // Applies to all its nodes, but see sequential.h.
  // On devices that can, its arena lies where those of other such plans lie. Then a run of it is
  // granted whole, so no node may be dispatched sequentially.
  bool overlaid = false;
};

// Whether its runs update states, and so form a chain.
inline bool has_commit(const Plan& plan) {
  return std::ranges::any_of(
      plan.nodes, [](const PlanNode& node) { return node.kind == PlanNodeKind::kCommit; });
}

}  // namespace gangway
