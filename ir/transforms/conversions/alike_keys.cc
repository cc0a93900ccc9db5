#include "ir/transforms/conversions/alike_keys.h"

#include <set>

#include "ir/graph/bodies.h"
#include "ir/transforms/rewrite/attrs_key.h"

namespace gangway {

AlikeKeys::AlikeKeys(const Node& from, const Node& to) {
  number_parameters(from);
  number_nodes(*from.body, first_);
  hand_over(from, to);
  number_nodes(*to.body, second_);
  const RowExchanges exchanges(*to.body);
  std::set<RowsKey> keys;
  for (const Node& node : to.body->nodes) {
    if (const auto there = exchanges.there(node)) keys.insert(there->key);
  }
  for (const RowsKey& key : keys)
    keys_.try_emplace({second_[key.sorted], key.axes, key.bound}, key);
}

std::optional<RowsKey> AlikeKeys::in_second(const RowsKey& key) const {
  const auto found = keys_.find({first_[key.sorted], key.axes, key.bound});
  return found == keys_.end() ? std::nullopt : std::optional(found->second);
}

AlikeKeys::Number AlikeKeys::new_numbers(uint32_t count) {
  const Number first = next_;
  next_ += count;
  return first;
}

void AlikeKeys::number_parameters(const Node& from) {
  const ScanLayout layout(from);
  for (size_t p = 0; p < from.inputs.size(); ++p) {
    const bool is_whole = p >= layout.carries && p < layout.first_stacked();
    first_.push_back(is_whole ? operands_.try_emplace(from.inputs[p], next_).first->second : next_);
    next_ += 1;
  }
}

// A row that the second loop reads from a stack of the first is the result of the first loop's
// iteration, and so has its number.
void AlikeKeys::hand_over(const Node& from, const Node& to) {
  const ScanLayout a(from), b(to);
  for (size_t p = 0; p < to.inputs.size(); ++p) {
    const ValueId operand = to.inputs[p];
    const ValueId result = operand - from.first_result;
    const bool is_result =
        operand >= from.first_result && result < from.results && result >= a.carries;
    const auto whole = operands_.find(operand);
    if (is_result && (p >= b.first_stacked() || !b.stacks)) {
      second_.push_back(first_[from.body->results[result]]);
    } else if (p >= b.carries && p < b.first_stacked() && whole != operands_.end()) {
      second_.push_back(whole->second);
    } else {
      second_.push_back(new_numbers(1));
    }
  }
}

// Two collectives never get the same numbers, even if they are written alike.
void AlikeKeys::number_nodes(const Function& body, std::vector<Number>& numbers) {
  for (const Node& node : body.nodes) {
    Number first = next_;
    if (!row(node.op).meets) {
      Alike key{static_cast<uint32_t>(node.op), attrs_key(node.attrs), node.body.get(), {}};
      std::vector<Number>& inputs = std::get<3>(key);
      for (const ValueId input : node.inputs) inputs.push_back(numbers[input]);
      first = alike_.try_emplace(std::move(key), next_).first->second;
    }
    if (first == next_) new_numbers(node.results);
    for (uint32_t r = 0; r < node.results; ++r) numbers.push_back(first + r);
  }
}

}  // namespace gangway
