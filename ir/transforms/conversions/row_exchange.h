// Finds, in a local function, where rows of dropless experts go to the devices of their experts and
// where they come back, as ir/op_table/rows/dropless_experts.cc traces it:
//
//   there   moe_dispatch(sorted), ragged_all_to_all that must fit, moe_dispatch(by expert)
//   back    moe_combine(by expert), ragged_all_to_all, moe_combine(sorted)
//
// with reshapes between them that keep the order of rows.
//
// Threads: one thread.
// Ownership: keeps a reference to the function.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Exchanges with one key put the same rows at the same places.
struct RowsKey {
  ValueId sorted = kNone;  // The order of a device's own rows, sorted by expert.
  std::string axes;
  int64_t bound = 0;
  friend auto operator<=>(const RowsKey&, const RowsKey&) = default;
};

struct RowExchange {
  RowsKey key;
  // The rows that are sent: there, before any reshape; back, [1, bound, width].
  ValueId rows = kNone;
  const Node* first = nullptr;
  const Node* exchange = nullptr;
  const Node* last = nullptr;
};

class RowExchanges {
 public:
  explicit RowExchanges(const Function& function);

  // The exchange that ends with this node.
  std::optional<RowExchange> there(const Node& last) const;
  std::optional<RowExchange> back(const Node& last) const;

  // The value without the reshapes that made it.
  ValueId bare(ValueId value) const { return bare_[value]; }
  // Null for a parameter.
  const Node* maker(ValueId value) const;

 private:
  std::optional<RowExchange> found(const Node& last, Op permute, bool must_fit) const;
  bool is_ones(ValueId value) const;

  const Function& function_;
  const std::vector<NodeId> makers_;
  std::vector<ValueId> bare_;  // Indexed by value.
};

}  // namespace gangway
