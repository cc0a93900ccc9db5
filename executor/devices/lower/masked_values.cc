#include "executor/devices/lower/masked_values.h"

#include <cmath>

namespace gangway {

std::vector<bool> masked_values(const Function& function) {
  std::vector<bool> masked(function.types.size(), false);
  for (const Node& node : function.nodes) {
    bool of_node = false;
    if (const AttrValue* value = node.attrs.find("value"); value != nullptr) {
      const double* number = std::get_if<double>(value);
      of_node = number != nullptr && !std::isfinite(*number);
    }
    // Exponentials and comparisons of a masked value are finite again.
    const bool heals = node.op == Op::exp || node.op == Op::expm1 || node.op == Op::softmax ||
                       node.op == Op::is_finite;
    for (ValueId input : node.inputs) of_node |= !heals && masked[input];
    for (uint32_t r = 0; r < node.results; ++r) masked[node.first_result + r] = of_node;
  }
  return masked;
}

}  // namespace gangway
