#include "ir/transforms/conversions/row_exchange.h"

#include <numeric>

namespace gangway {

RowExchanges::RowExchanges(const Function& function)
    : function_(function), makers_(producers(function)), bare_(function.types.size()) {
  std::iota(bare_.begin(), bare_.end(), ValueId{0});
  for (const Node& node : function.nodes) {
    if (node.op == Op::reshape) bare_[node.first_result] = bare_[node.inputs[0]];
  }
}

const Node* RowExchanges::maker(ValueId value) const {
  const NodeId id = makers_[value];
  return id == kNone ? nullptr : &function_.nodes[id];
}

bool RowExchanges::is_ones(ValueId value) const {
  const Node* node = maker(value);
  return node != nullptr && is_filled_with(*node, 1);
}

std::optional<RowExchange> RowExchanges::found(const Node& last, Op permute, bool must_fit) const {
  if (last.op != permute) return std::nullopt;
  const ValueId received = bare(last.inputs[0]);
  const Node* exchange = maker(received);
  if (exchange == nullptr || exchange->op != Op::ragged_all_to_all ||
      exchange->first_result != received || exchange->attrs.flag("must_fit") != must_fit)
    return std::nullopt;
  const Node* first = maker(bare(exchange->inputs[0]));
  if (first == nullptr || first->op != permute) return std::nullopt;
  return RowExchange{.key = {.axes = exchange->attrs.text("axes")},
                     .first = first,
                     .exchange = exchange,
                     .last = &last};
}

std::optional<RowExchange> RowExchanges::there(const Node& last) const {
  std::optional<RowExchange> it = found(last, Op::moe_dispatch, true);
  if (!it) return it;
  it->key.sorted = it->first->inputs[1];
  it->key.bound = it->exchange->attrs.integer("bound");
  it->rows = bare(it->first->inputs[0]);
  return it;
}

std::optional<RowExchange> RowExchanges::back(const Node& last) const {
  std::optional<RowExchange> it = found(last, Op::moe_combine, false);
  if (!it || !is_ones(it->first->inputs[1]) || !is_ones(last.inputs[1])) return std::nullopt;
  it->key.sorted = last.inputs[2];
  it->key.bound = function_.types[it->first->inputs[0]].dims[1];
  it->rows = it->first->inputs[0];
  return it;
}

}  // namespace gangway
