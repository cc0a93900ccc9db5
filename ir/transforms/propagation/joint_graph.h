// JointGraph: a function and all bodies of its scans and calls as one graph, so that placements
// spread through bodies as through anything else.
//
// A body is there once, however many nodes name it: it is cut in one way for all of them. In
// place of a scan or a call stand *ties*, nodes that hold the values together that are one tensor
// seen from outside and from inside, and so are cut alike:
//
//   carry             operands of all nodes that name the body, and what the body gives  ->
//                     the body's parameter, and the nodes' results
//   invariant         operands  ->  the parameter
//   stacked operand   operands  ->  the parameter, whose dimension d is the operands' d + 1
//   stacked result    what the body gives  ->  the nodes' results, d -> d + 1
//   result of a call  what the body gives  ->  the nodes' results
//
// The first dimension of what is stacked is never cut: iterations follow one another on every
// device. A function without bodies is itself the graph, with its own numbers.
//
// Threads: immutable.
// Ownership: keeps pointers into the function, which must live as long.
// Cost: linear in nodes, bodies counted once.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

class JointGraph {
 public:
  explicit JointGraph(const Function& global);

  // Values and nodes of the parts; the function's parameters come first, and its results are the
  // graph's.
  const Function& graph() const { return joint_ == nullptr ? *parts_[0].function : *joint_; }

  enum class TieKind : uint8_t {
    kNoTie,
    kCarry,
    kInvariant,  // Also an operand of a call.
    kStackedOperand,
    kStackedResult,
    kCallResult
  };
  TieKind tie(NodeId id) const { return ties_.empty() ? TieKind::kNoTie : ties_[id].kind; }
  bool is_tie(NodeId id) const { return tie(id) != TieKind::kNoTie; }
  // How the tie is cut: a factor for each dimension of the value in the body.
  Factors tie_factors(NodeId id) const;

  // The function itself is part 0, bodies follow.
  struct Part {
    const Function* function = nullptr;
    std::vector<ValueId> values = {};  // Value in the graph, indexed by ValueId of the part.
    // Node in the graph, indexed by NodeId of the part; kNone: scan or call.
    std::vector<NodeId> nodes = {};
    // The ties of a body, indexed by operand and by result.
    std::vector<NodeId> operands = {}, results = {};
  };
  const std::vector<Part>& parts() const { return parts_; }
  // For a scan or a call of a part: the body that it names, and its index among the nodes that name
  // it, which is also the index of its operands and results in the body's ties.
  struct Use {
    size_t body = 0;
    size_t place = 0;
  };
  Use use(size_t part, NodeId node) const { return uses_.at({part, node}); }

  // A value of a part.
  struct Seen {
    size_t part = 0;
    ValueId value = kNone;
  };
  Seen seen(ValueId value) const { return joint_ == nullptr ? Seen{0, value} : seen_[value]; }
  // The value in the graph for a value of one of the bodies, or of the function itself if `body` is
  // null.
  ValueId at(const Function* body, ValueId value) const;

 private:
  struct Tie {
    TieKind kind = TieKind::kNoTie;
    size_t body = 0;
    size_t index = 0;  // Index of the body's parameter or result.
  };
  // A node that names a body.
  struct User {
    size_t part = 0;
    NodeId node = kNone;
  };

  void collect();
  void join();
  void add_locations(const Function& function);
  void emit(size_t part);
  void emit_node(size_t part, NodeId id);
  void emit_operand_ties(size_t body);
  void emit_result_ties(size_t body);
  NodeId append_tie(Tie tie, const std::vector<Seen>& results);
  void connect(NodeId tie);
  ValueId add_value(Seen seen);
  NodeInfo info_of(size_t part, NodeId id) const;
  const Node& node_of(const User& user) const {
    return parts_[user.part].function->nodes[user.node];
  }

  // Nodes that name one function and divide their operands alike share a part.
  using BodyKey = std::tuple<const Function*, size_t, size_t, bool>;
  std::map<BodyKey, size_t> part_of_;
  std::vector<Part> parts_;
  std::vector<std::vector<User>> users_;  // Indexed by part.
  std::map<std::pair<size_t, NodeId>, Use> uses_;
  std::shared_ptr<Function> joint_;   // Null: there are no bodies.
  std::vector<Tie> ties_;             // Indexed by node of the graph.
  std::vector<Seen> seen_;            // Indexed by value of the graph.
  std::vector<uint32_t> first_locs_;  // Indexed by part.
  std::vector<bool> is_emitted_;      // Indexed by part.
};

// The factors of each node of the graph: by its op's row, or those of the tie.
std::vector<Factors> factors_of(const JointGraph& joint);

}  // namespace gangway
