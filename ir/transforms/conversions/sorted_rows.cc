#include "ir/transforms/conversions/sorted_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/transforms/conversions/row_exchange.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

class Leaver {
 public:
  explicit Leaver(const Function& local) : local_(local), exchanges_(local), out_(local) {
    for (const Node& node : local.nodes) {
      const auto there = exchanges_.there(node);
      if (there && lie_in_order(there->first->inputs[1]))
        sends_[there->exchange] = there->first->inputs[0];
      const auto back = exchanges_.back(node);
      if (back && lie_in_order(node.inputs[2])) returns_[&node] = back->exchange->first_result;
    }
  }

  Function run() {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Node& node = local_.nodes[id];
      const auto send = sends_.find(&node);
      const auto back = returns_.find(&node);
      if (send != sends_.end()) {
        emit_exchange(id, send->second);
      } else if (back != returns_.end()) {
        out_.set(node.first_result, reshaped(back->second, node.first_result, id));
      } else {
        out_.copy(id);
      }
    }
    return out_.finish();
  }

 private:
  // Whether the sort that gave these slots leaves each row of an expert where it is.
  bool lie_in_order(ValueId slot_token) const {
    const Node* sort = exchanges_.maker(slot_token);
    if (sort == nullptr || sort->op != Op::moe_route || sort->attrs.integer("capacity") != 0)
      return false;
    const Dims& dims = local_.types[sort->inputs[0]].dims;
    return dims[0] == 1 && dims[2] == 1 && never_falls(exchanges_.bare(sort->inputs[0]));
  }

  // Whether this is i32[1, rows] that counts, for each row, those of some numbers that its index
  // has reached: of one group, since those of several lie behind one another.
  bool never_falls(ValueId value) const {
    const Node* sum = made_by(Op::reduce_sum, value);
    const Dims& dims = local_.types[value].dims;
    if (sum == nullptr || dims.size() != 2 || dims[0] != 1 ||
        sum->attrs.ints("axes") != std::vector<int64_t>{2})
      return false;
    const Node* as_number = made_by(Op::convert, sum->inputs[0]);
    const Node* reached = as_number == nullptr ? nullptr : made_by(Op::ge, as_number->inputs[0]);
    if (reached == nullptr) return false;
    const Node* row = made_by(Op::iota, reached->inputs[0]);
    const Node* numbers = made_by(Op::broadcast, reached->inputs[1]);
    return row != nullptr && row->attrs.integer("axis") == 1 && numbers != nullptr &&
           std::ranges::count(numbers->attrs.ints("map"), 1) == 0;
  }

  const Node* made_by(Op op, ValueId value) const {
    const Node* node = exchanges_.maker(value);
    return node != nullptr && node->op == op ? node : nullptr;
  }

  void emit_exchange(NodeId id, ValueId rows) {
    const Node& old = local_.nodes[id];
    Node node = old;
    for (ValueId& input : node.inputs) input = out_.at(input);
    node.inputs[0] = reshaped(rows, old.inputs[0], id);
    const auto begin = local_.types.begin() + old.first_result;
    const ValueId first =
        out_.append(std::move(node), {begin, begin + old.results}, local_.infos[id]);
    for (uint32_t r = 0; r < old.results; ++r) out_.set(old.first_result + r, first + r);
  }

  // The value that replaces a value of the source, in the shape of another.
  ValueId reshaped(ValueId value, ValueId like, NodeId id) {
    Node node{.op = Op::reshape, .inputs = {out_.at(value)}};
    node.attrs.set("dims", local_.types[like].dims);
    return out_.append(std::move(node), {local_.types[like]}, local_.infos[id]);
  }

  const Function& local_;
  const RowExchanges exchanges_;
  Rewriter out_;
  std::map<const Node*, ValueId> sends_;  // Indexed by exchange: the rows before they were sorted.
  // Indexed by node that sorts back: the rows that have come back.
  std::map<const Node*, ValueId> returns_;
};

}  // namespace

Function leave_sorted_rows(const Function& local) {
  const bool sends = std::ranges::any_of(
      local.nodes, [](const Node& node) { return node.op == Op::ragged_all_to_all; });
  return sends ? Leaver(local).run() : local;
}

}  // namespace gangway
