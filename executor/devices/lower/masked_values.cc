#include "executor/devices/lower/masked_values.h"

#include <cmath>

#include "ir/graph/bodies.h"

namespace gangway {
namespace {

// A finding in a body reaches the node that names the body in the next pass, and so the bodies
// behind it. Chains of carries that would take more passes are not followed to their end.
constexpr int kPassesMax = 16;

bool holds_infinity(const Node& node) {
  const AttrValue* value = node.attrs.find("value");
  const double* number = value == nullptr ? nullptr : std::get_if<double>(value);
  return number != nullptr && !std::isfinite(*number);
}

// Whether the result of a masked value is finite again.
bool heals(Op op) {
  return op == Op::exp || op == Op::expm1 || op == Op::softmax || op == Op::is_finite;
}

class Masking {
 public:
  explicit Masking(const Function& function) {
    table_.add(function);
    functions_.push_back(&function);
    for (uint32_t b = table_.size(); b-- > 0;) functions_.push_back(&table_[b]);
    for (const Function* each : functions_) masked_[each].assign(each->types.size(), false);
  }

  MaskedValues run() {
    for (int pass = 0; pass < kPassesMax; ++pass) {
      changed_ = false;
      for (const Function* function : functions_) mask(*function);
      if (!changed_) break;
    }
    return std::move(masked_);
  }

 private:
  void mask(const Function& function) {
    std::vector<bool>& masked = masked_.at(&function);
    for (const Node& node : function.nodes) {
      if (shares_body(node.op) && node.body != nullptr) {
        mask_body(node, masked);
        continue;
      }
      bool of_node = holds_infinity(node);
      for (ValueId input : node.inputs) of_node |= !heals(node.op) && masked[input];
      for (uint32_t r = 0; r < node.results && of_node; ++r) set(masked, node.first_result + r);
    }
  }

  void mask_body(const Node& node, std::vector<bool>& masked) {
    std::vector<bool>& inside = masked_.at(node.body.get());
    for (ValueId p = 0; p < node.inputs.size(); ++p) {
      if (masked[node.inputs[p]]) set(inside, p);
    }
    const size_t carries = ScanLayout(node).carries;
    for (uint32_t r = 0; r < node.results; ++r) {
      if (!inside[node.body->results[r]]) continue;
      set(masked, node.first_result + r);
      if (r < carries) set(inside, r);
    }
  }

  void set(std::vector<bool>& masked, ValueId value) {
    changed_ |= !masked[value];
    masked[value] = true;
  }

  BodyTable table_;
  std::vector<const Function*> functions_;  // Each before the bodies that it names.
  MaskedValues masked_;
  bool changed_ = false;
};

}  // namespace

MaskedValues masked_values(const Function& function) { return Masking(function).run(); }

}  // namespace gangway
