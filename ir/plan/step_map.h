// StepMap: numbers the steps of a local function in the order in which a device executes its nodes
// and those of its bodies. Sections, the commit point, and the progress of a run are numbers of
// steps.
//
//   a node             one step
//   a scan             the steps of its body, as often as it has iterations
//   a call             the steps of its body
//
// A scan without iterations is one step, which hands its carries on; so is a node whose body has no
// steps. Bodies are not unrolled: the map has as many entries as the function and its bodies have
// nodes.
//
// Invariants: the parts are the bodies as BodyTable has them (ir/graph/bodies.h), the function
// last. If a scan works ahead (ScanLayout::ahead), all nodes that run its body do, with the same
// carries: the body alone decides which nodes are skipped.
// Threads: immutable. Ownership: refers to the function.
// Errors: the constructor throws kInvalid for more than kStepsMax steps, and where nodes that run
// one body differ in what they work ahead.
// Cost: made once, O(nodes); a question O(depth of bodies
// * log nodes).
//
// Example:
//   const StepMap steps(*local.function);
//   for (const StepMap::Level& level : steps.path(step)) print(level.node, level.iteration);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/function.h"
#include "ir/plan/plan.h"

namespace gangway {

inline constexpr uint32_t kStepsMax = uint32_t{1} << 30;

class StepMap {
 public:
  explicit StepMap(const Function& function);

  // No node runs a body: steps are nodes.
  bool is_flat() const { return main().flat; }
  uint32_t count() const { return main().first.back(); }
  // First step of a node of the function itself; count() for the number of its nodes.
  uint32_t first_step(NodeId node) const { return main().first[node]; }

  // One level of a step's path: a node of the function, then of the body that this node runs, and
  // so on.
  struct Level {
    const Function* function = nullptr;
    NodeId node = kNone;
    // Number of the body's iterations that came before; the last level has none.
    uint32_t iteration = 0;
    uint32_t part = 0;
    friend bool operator==(const Level&, const Level&) = default;
  };
  std::vector<Level> path(uint32_t step) const;
  // The last level of the path alone.
  struct Leaf {
    uint32_t part = 0;
    NodeId node = kNone;
  };
  Leaf leaf(uint32_t step) const;

  // A step that works for an iteration that does not come (ScanLayout::ahead): devices pass over
  // it. The loop is the innermost one around the step: what a node that is ahead runs as its body
  // is run.
  bool is_passed_over(uint32_t step) const;
  // A node of a part that is passed over in the last iteration.
  bool is_ahead(uint32_t part, NodeId node) const {
    return !parts_[part].ahead.empty() && parts_[part].ahead[node];
  }

  // For people: "model.cc:14 in attn in layers.3 in train_step". A number is the row of the stacked
  // tensors that the iteration sees.
  std::string where(uint32_t step) const;

  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }
  const Function& function(uint32_t part) const { return *parts_[part].function; }
  // The part that a node runs as its body, step by step; kNone: the node is a step itself.
  uint32_t body_of(const Node& node) const;
  // Number of steps of one execution of a part.
  uint32_t steps_of(uint32_t part) const { return parts_[part].first.back(); }
  // The node of a part that has this one of its steps; and its first step there.
  NodeId node_at(uint32_t part, uint32_t step) const {
    return parts_[part].flat ? step : node_with(part, step);
  }
  uint32_t first_step(uint32_t part, NodeId node) const { return parts_[part].first[node]; }

 private:
  NodeId node_with(uint32_t part, uint32_t step) const;

  struct Part {
    const Function* function = nullptr;
    std::vector<uint32_t> first;   // Indexed by node, with one more for the end.
    bool flat = true;              // No node runs a body: its steps are its nodes.
    std::vector<bool> ahead = {};  // Indexed by node; empty: none is.
    // Layout of the nodes that run the part; empty until the first was seen.
    struct Ahead {
      size_t carries = 0, count = 0;
      friend bool operator==(const Ahead&, const Ahead&) = default;
    };
    std::optional<Ahead> run_with = {};
  };

  void add(const Function& function);
  void mark_ahead(const Function& function);
  const Part& main() const { return parts_.back(); }
  std::vector<Part> parts_;
  std::map<const Function*, uint32_t> index_;
};

// Marks the steps of some kind, such as collectives, and finds the nearest.
class StepMarks {
 public:
  // `is_marked` tells whether a node of a part is marked; if the node runs a body, its first step
  // is. `steps` outlives it.
  StepMarks(const StepMap& steps, const std::function<bool(uint32_t part, NodeId)>& is_marked);
  // Marks the collectives.
  explicit StepMarks(const StepMap& steps);

  // The first marked step from this one on; steps.count(): there is none.
  uint32_t next(uint32_t step) const;
  // The last one before it; kNone: there is none.
  uint32_t previous(uint32_t step) const;
  // Whether there is one in a part.
  bool any(uint32_t part) const { return parts_[part].next[0] != kNone; }

 private:
  struct Part {
    std::vector<bool> marked;  // Indexed by node.
    // Indexed by node, with one more for the end: the first node from there on, and the last
    // before, that is marked or runs a body in which there is a mark; kNone if there is none.
    std::vector<NodeId> next, last;
  };

  uint32_t body_of(uint32_t part, NodeId node) const {
    return steps_.body_of(steps_.function(part).nodes[node]);
  }
  uint32_t next(uint32_t part, uint32_t step) const;
  uint32_t previous(uint32_t part, uint32_t step) const;

  const StepMap& steps_;
  std::vector<Part> parts_;
};

// The first step behind the commit point.
uint32_t commit_step(const LocalFunction& local);

// Sums of the costs of a function's steps: the cost function gives a number for each node, 0 or
// more. Skipped nodes cost nothing.
class StepSums {
 public:
  using Cost = std::function<int64_t(const Function&, NodeId)>;

  // `steps` outlives it.
  StepSums(const StepMap& steps, const Cost& cost);

  // Cost of all steps before this one. Saturates at kMost.
  int64_t before(uint32_t step) const;
  int64_t total() const { return parts_.back().before.back(); }
  static constexpr int64_t kMost = int64_t{1} << 62;

 private:
  const StepMap& steps_;
  struct Part {
    // Indexed by node, with one more for the end: in any iteration, and in the last.
    std::vector<int64_t> before{0}, before_in_last{0};
  };
  std::vector<Part> parts_;
};

}  // namespace gangway
