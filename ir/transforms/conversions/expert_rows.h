// Distributed implementation of products of dropless experts, for all of them in a function: rows
// go to the devices of their experts before the first product, and come back behind the last
// (expert_exchange.h). Their cotangents do the same in the backward pass, as rows with a capacity
// do in GShard (Lepikhin et al. 2020, section 3.3).
//
//   there up, gate, gelu, mul, down back
//
// While the partitioner appends local nodes, this knows which values also lie with the experts. A
// product takes them there; an op on each element by itself runs there as well: on the rows that
// lie there and on the room behind them, which nothing reads. Products are sent back as well, and
// so is what is computed from them. Where no node needs rows on their own devices, the exchange
// that sends them back is dead, and simplify() removes it.
//
// If the forward and the backward loop over layers sort rows alike, the rows that the backward loop
// needs on the experts' devices are stacked where the forward loop has them: rows that the forward
// loop sent are not sent again. Rows lie alike where the forward loop passes on the numbers of rows
// of each expert, as it does for its gradient if layers route differently; where all layers have
// one route, its gradient computes that again and sends rows again. Such a stack has room for
// `bound` times the rows of a device in each layer; rematerialised layers keep none.
//
// Invariants
//  - Finite values are those of products that are exchanged one by one, in every bit but the sign
//    of zero: rows move, and nothing is computed in another order.
// Threads: one thread.
// Ownership: keeps a reference to the rewriter.
// Cost: O(nodes * log) from the first product on; operands * results of loops that pass rows on.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/transforms/conversions/distribute_node.h"
#include "ir/transforms/conversions/expert_exchange.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {

// Exchanges with one key put the same rows at the same places.
struct RowsKey {
  ValueId sizes = kNone;  // How many rows of each group each expert has, in the local function.
  int64_t slots = 0;
  std::string axes;
  int64_t bound = 0;
  friend auto operator<=>(const RowsKey&, const RowsKey&) = default;
};

// Rows that a loop also passes to its body as they lie there, by a parameter behind the others.
struct RowsGiven {
  ValueId parameter = kNone;  // Has the same rows here.
  RowsKey key;                // In the body.
  friend auto operator<=>(const RowsGiven&, const RowsGiven&) = default;
};

// Rows that a body also gives as they lie there.
struct RowsShown {
  RowsKey key;          // In the body.
  uint32_t result = 0;  // The index of the result that has them.
};
using RowsOfResults = std::vector<std::optional<RowsShown>>;  // Indexed by result of the body.

class ExpertRows {
 public:
  // The target of `out` gets local nodes.
  explicit ExpertRows(Rewriter& out) : out_(out) {}

  // Appends the parameters of a body, which has no nodes yet.
  void take(const std::vector<RowsGiven>& given);

  // Appends the local nodes of a product that is cut by experts. The results, here.
  std::vector<ValueId> lower(const DistributedNode& node);
  // To be called behind each other local node of one result. Returns the value that is to stand for
  // it: the node's, or equal rows that are sent back once.
  ValueId follow(NodeId id, ValueId result);

  // Adds operands to a scan or call that is about to be appended: rows that a loop before it has
  // there.
  std::vector<RowsGiven> give(Node& loop);
  // Says what the body of a scan or call that was appended shows.
  void loop_shows(ValueId first_result, RowsOfResults rows);
  // Adds results to a body, which is complete: rows that it has there.
  RowsOfResults show(Function& body) const;

 private:
  // A value as it lies with the experts: [1, bound, width].
  struct There {
    RowsKey key;
    ValueId now = kNone;
    bool is_sent_back = false;  // An exchange is needed to have it here.
  };
  struct Exchange {
    ExchangeShape shape;
    std::vector<ValueId> values;  // ExpertExchange::values().
  };

  RowsKey key_of(const DistributedNode& node, int64_t members) const;
  const Exchange& exchange_of(const RowsKey& key, const DistributedNode& node, int64_t members);
  ValueId there(ValueId x, const RowsKey& key, NodeId id);
  ValueId sent_back(const RowsKey& key, ValueId now, NodeId id);
  ValueId run_there(NodeId id, ValueId result);

  void look_at_new_nodes();
  bool is_uniform(const Node& node) const;
  bool is_constant_zero(const Node& node) const;
  bool vanishes(const Node& node) const;
  ValueId uniform_there(ValueId value, const Dims& dims, NodeId id);
  ValueId emit_uniform(const Node& node, const Dims& dims, NodeId id);

  const Type& type_of(ValueId value) const { return out_.target().types[value]; }
  ValueId append(Op op, std::vector<ValueId> inputs, Attrs attrs, NodeId id);
  NodeInfo info_of(NodeId id) const;

  Rewriter& out_;
  std::map<ValueId, There> there_;
  std::map<RowsKey, Exchange> exchanges_;
  std::map<NodeId, RowsOfResults> loops_;  // Keyed by node of the target.
  std::map<std::pair<ValueId, Dims>, ValueId> uniform_;
  NodeId looked_at_ = 0;          // Nodes of the target that the next three know.
  std::vector<NodeId> makers_;    // Indexed by value, as are the next two; kNone: a parameter.
  std::vector<bool> is_uniform_;  // All of its rows are alike.
  std::vector<bool> is_zero_;     // It is 0 in rows of no expert.
};

}  // namespace gangway
