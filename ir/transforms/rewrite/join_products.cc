#include "ir/transforms/rewrite/join_products.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "ir/types/limits.h"

namespace gangway {
namespace {

class Joiner {
 public:
  explicit Joiner(const Function& local)
      : local_(local),
        makers_(producers(local)),
        uses_(use_counts(local)),
        is_term_(local.nodes.size(), false),
        is_done_(local.nodes.size(), false),
        out_(local) {
    for (const Node& node : local.nodes) {
      for (ValueId input : node.inputs) {
        const NodeId maker = makers_[input];
        if (is_sum(node) && maker != kNone && is_sum(local.nodes[maker]) && uses_[input] == 1)
          is_term_[maker] = true;
      }
    }
  }

  Function run() {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      if (is_sum(local_.nodes[id]) && !is_term_[id]) decide(id);
    }
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const auto join = joins_.find(id);
      if (join != joins_.end()) {
        emit(id, join->second);
      } else if (!is_done_[id]) {
        out_.copy(id);
      }
    }
    return out_.finish();
  }

 private:
  using Products = std::vector<const Node*>;  // In the order of the terms that they give.
  struct Join {
    std::vector<ValueId> terms;
    // Products that become one, keyed by the result of the first of them.
    std::map<ValueId, Products> products;
  };
  // Equal for products that can become one: they differ at most in the length of the summed
  // dimension.
  using Likeness = std::tuple<std::string, DType, Dims, DType, Dims>;

  bool is_sum(const Node& node) const {
    return node.op == Op::add && is_float(local_.types[node.first_result].dtype);
  }

  // The terms of a sum of sums, in their order; and the inner sums.
  std::vector<ValueId> terms_of(NodeId sum, std::vector<NodeId>& inner) const {
    std::vector<ValueId> terms, left = {local_.nodes[sum].first_result};
    while (!left.empty()) {
      const ValueId value = left.back();
      left.pop_back();
      const NodeId maker = makers_[value];
      if (maker == sum || (maker != kNone && is_term_[maker])) {
        if (maker != sum) inner.push_back(maker);
        const std::vector<ValueId>& inputs = local_.nodes[maker].inputs;
        left.insert(left.end(), inputs.rbegin(), inputs.rend());
      } else {
        terms.push_back(value);
      }
    }
    return terms;
  }

  // The product that nothing but a sum reads, if the term is one that can be joined.
  const Node* product(ValueId term) const {
    if (makers_[term] == kNone || uses_[term] != 1) return nullptr;
    const Node& node = local_.nodes[makers_[term]];
    return node.op == Op::dot && node.attrs.ints("lhs_contract").size() == 1 ? &node : nullptr;
  }

  Likeness likeness(const Node& product) const {
    const auto dims = [&](size_t operand) {
      Dims of = local_.types[product.inputs[operand]].dims;
      of[summed(product, operand)] = 0;
      return of;
    };
    return {attrs_key(product.attrs), local_.types[product.inputs[0]].dtype, dims(0),
            local_.types[product.inputs[1]].dtype, dims(1)};
  }

  static size_t summed(const Node& product, size_t operand) {
    const auto& dims = product.attrs.ints(operand == 0 ? "lhs_contract" : "rhs_contract");
    return static_cast<size_t>(dims[0]);
  }

  void decide(NodeId sum) {
    std::vector<NodeId> inner;
    Join join{.terms = terms_of(sum, inner), .products = {}};
    std::map<Likeness, Products> alike;
    for (ValueId term : join.terms) {
      const Node* const node = product(term);
      if (node == nullptr) continue;
      Products& products = alike[likeness(*node)];
      products.push_back(node);
      if (products.size() == kInputsMax) add(join, std::exchange(products, {}));
    }
    for (auto& [likeness, products] : alike) add(join, std::move(products));
    if (join.products.empty()) return;
    for (NodeId id : inner) is_done_[id] = true;
    joins_[sum] = std::move(join);
  }

  void add(Join& join, Products products) {
    if (!is_worth_it(products)) return;
    for (const Node* node : products) is_done_[makers_[node->first_result]] = true;
    const ValueId first = products[0]->first_result;
    join.products[first] = std::move(products);
  }

  // A joined product stands where the first of them stood.
  void emit(NodeId sum, const Join& join) {
    const NodeInfo info = local_.infos[sum];
    ValueId total = kNone;
    for (ValueId value : join.terms) {
      const NodeId maker = makers_[value];
      const bool is_joined = maker != kNone && is_done_[maker];
      const auto products = join.products.find(value);
      if (is_joined && products == join.products.end()) continue;
      const ValueId term = is_joined ? one_product(products->second, info) : out_.at(value);
      if (total != kNone) {
        Node add{.op = Op::add, .inputs = {total, term}};
        total = out_.append(std::move(add), {local_.types[value]}, info);
      } else {
        total = term;
      }
    }
    out_.set(local_.nodes[sum].first_result, total);
  }

  // Operands are read and written once more. Each product but one is neither written nor read.
  bool is_worth_it(const Products& products) const {
    if (products.size() < 2) return false;
    double moved = 0;
    for (const Node* node : products) {
      for (const ValueId input : node->inputs) moved += 2.0 * bytes(input);
    }
    const auto saved = static_cast<double>(products.size() - 1);
    return moved < 2.0 * saved * bytes(products[0]->first_result);
  }

  double bytes(ValueId value) const { return static_cast<double>(local_.types[value].bytes()); }

  ValueId one_product(const Products& products, const NodeInfo& info) {
    const Node& first = *products[0];
    Node node{.op = Op::dot, .inputs = {}, .attrs = first.attrs};
    for (size_t i = 0; i < first.inputs.size(); ++i)
      node.inputs.push_back(joined_operands(products, i, info));
    return out_.append(std::move(node), {local_.types[first.first_result]}, info);
  }

  ValueId joined_operands(const Products& products, size_t operand, const NodeInfo& info) {
    const size_t dim = summed(*products[0], operand);
    Node node{.op = Op::concat};
    node.attrs.set("axis", static_cast<int64_t>(dim));
    Type type = local_.types[products[0]->inputs[operand]];
    type.dims[dim] = 0;
    for (const Node* product : products) {
      node.inputs.push_back(out_.at(product->inputs[operand]));
      type.dims[dim] += local_.types[product->inputs[operand]].dims[dim];
    }
    return out_.append(std::move(node), {type}, info);
  }

  const Function& local_;
  const std::vector<NodeId> makers_;
  const std::vector<uint32_t> uses_;
  std::vector<bool> is_term_;  // Indexed by node: a sum that only another sum reads.
  std::vector<bool> is_done_;  // Indexed by node: a joined product, or a sum in a joined one.
  std::map<NodeId, Join> joins_;
  Rewriter out_;
};

}  // namespace

Function join_products(const Function& local) { return Joiner(local).run(); }

}  // namespace gangway
