#include "executor/devices/cuda/lower/product_fusion.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/devices/cuda/lower/product_tail.h"
#include "executor/devices/cuda/lower/rewrite_local.h"
#include "executor/devices/lower/dot_plan.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// A product that becomes part of a fusion, whose input `place` it is.
struct Merge {
  NodeId product = kNone;
  size_t place = 0;
  bool kept = false;  // Others need the product too.
};

// A sum of tensors. Each product adds to the sum of what comes before it.
struct Sum {
  std::vector<ValueId> others;
  std::vector<NodeId> products;
};

class ProductFuser {
 public:
  // Nodes from `end` on stay as they are.
  ProductFuser(const Function& from, NodeId end, Bodies& bodies)
      : from_(from),
        end_(end),
        bodies_(bodies),
        makers_(producers(from_)),
        readers_(readers(from_)) {
    taken_.assign(from_.nodes.size(), false);
    merges_.resize(from_.nodes.size());
    sums_.resize(from_.nodes.size());
  }

  Rewritten run() {
    for (NodeId id = 0; id < end_; ++id) {
      consider_sum(id);
      for (size_t i = 0; i < from_.nodes[id].inputs.size() && !written(id); ++i) consider(id, i);
    }
    return bodies_.write(from_, [this](Rewriter& out, NodeId id) {
      if (written(id)) sums_[id] ? append_sum(out, id) : append(out, id);
      return written(id) || taken_[id];
    });
  }

 private:
  // Whether the node is written as a product with a chain.
  bool written(NodeId id) const { return sums_[id] || merges_[id].product != kNone; }

  // The product that computes a value, if it may become part of another node.
  NodeId product_of(ValueId value) const {
    const NodeId maker = makers_[value];
    const bool is_one = maker != kNone && from_.nodes[maker].op == Op::dot && !taken_[maker];
    return is_one ? maker : kNone;
  }

  void consider_sum(NodeId id) {
    const Node& node = from_.nodes[id];
    if (!is_sum(node)) return;
    Sum sum;
    for (ValueId input : node.inputs) {
      const NodeId product = product_of(input);
      if (product != kNone && readers_[input].size() == 1) {
        sum.products.push_back(product);
      } else {
        sum.others.push_back(input);
      }
    }
    // A first product, which has nothing to add to, stays a product.
    if (sum.others.empty()) {
      sum.others.push_back(from_.nodes[sum.products[0]].first_result);
      sum.products.erase(sum.products.begin());
    }
    if (sum.products.empty()) return;
    for (NodeId product : sum.products) taken_[product] = true;
    sums_[id] = std::move(sum);
  }

  bool is_sum(const Node& node) const {
    if (node.op == Op::fusion) return node.body->parameters.size() > 1 && is_sum_of_all(*node.body);
    return node.op == Op::add && node.inputs[0] != node.inputs[1];
  }

  void consider(NodeId id, size_t place) {
    const Node& fusion = from_.nodes[id];
    if (fusion.op != Op::fusion || fusion.body->results.size() != 1) return;
    const ValueId value = fusion.inputs[place];
    const NodeId maker = product_of(value);
    if (maker == kNone) return;
    const auto tail = product_tail(*fusion.body, static_cast<uint32_t>(place));
    if (!tail) return;
    const Node& product = from_.nodes[maker];
    const DotPlan plan = plan_dot(product.attrs, from_.types[product.inputs[0]],
                                  from_.types[product.inputs[1]], from_.types[value].dtype);
    const bool biased = tail->bias != kNone;
    if (biased && fusion.body->types[tail->bias].elements() != plan.desc.n) return;
    Merge merge{.product = maker, .place = place};
    for (const ValueReader& reader : readers_[value]) {
      if (reader.node == id) continue;
      if (reader.node < id) return;  // This reader cannot wait for the chain.
      merge.kept = true;
    }
    // The second result would be the product with bias and other operands, not the product alone.
    if (merge.kept && (biased || tail->added != kNone || tail->pre != kNone)) return;
    taken_[maker] = true;
    merges_[id] = merge;
  }

  std::shared_ptr<const Function> sum_of(size_t count, const Type& type) const {
    auto sum = std::make_shared<Function>();
    sum->name = "sum";
    sum->mesh = from_.mesh;
    sum->local = true;
    sum->parameters.resize(count);
    sum->types.assign(count, type);
    ValueId total = 0;
    for (ValueId p = 0; p < count; ++p) {
      sum->parameters[p].name = cat("term", p);
      if (p == 0) continue;
      const auto next = static_cast<ValueId>(sum->types.size());
      sum->types.push_back(type);
      sum->nodes.push_back(
          {.op = Op::add, .inputs = {total, p}, .first_result = next, .results = 1});
      total = next;
    }
    sum->infos.resize(sum->nodes.size());
    sum->results = {total};
    sum->result_names = {"sum"};
    return sum;
  }

  void append_sum(Rewriter& out, NodeId id) const {
    const Type& type = from_.types[from_.nodes[id].first_result];
    const Sum& sum = *sums_[id];
    std::vector<ValueId> others;
    for (ValueId other : sum.others) others.push_back(out.at(other));
    ValueId total = others[0];
    if (others.size() > 1) {
      Node node{.op = Op::fusion, .inputs = others, .body = sum_of(others.size(), type)};
      total = out.append(std::move(node), {type}, from_.infos[id]);
    }
    const std::shared_ptr<const Function> body = sum_of(2, type);
    for (NodeId made : sum.products) {
      const Node& product = from_.nodes[made];
      Node node{.op = Op::fusion, .inputs = {total}, .attrs = product.attrs, .body = body};
      node.attrs.set(kProductAttr, int64_t{1});
      for (ValueId input : product.inputs) node.inputs.push_back(out.at(input));
      total = out.append(std::move(node), {type}, from_.infos[id]);
    }
    out.set(from_.nodes[id].first_result, total);
  }

  void append(Rewriter& out, NodeId id) const {
    const Node& fusion = from_.nodes[id];
    const Merge& merge = merges_[id];
    const Node& product = from_.nodes[merge.product];
    Node node{.op = Op::fusion, .attrs = product.attrs, .body = fusion.body};
    node.attrs.set(kProductAttr, static_cast<int64_t>(merge.place));
    for (size_t i = 0; i < fusion.inputs.size(); ++i) {
      if (i != merge.place) node.inputs.push_back(out.at(fusion.inputs[i]));
    }
    for (ValueId input : product.inputs) node.inputs.push_back(out.at(input));
    std::vector<Type> types = {from_.types[fusion.first_result]};
    if (merge.kept) types.push_back(from_.types[product.first_result]);
    const ValueId first = out.append(std::move(node), types, from_.infos[id]);
    out.set(fusion.first_result, first);
    if (merge.kept) out.set(product.first_result, first + 1);
  }

  const Function& from_;
  const NodeId end_;
  Bodies& bodies_;
  const std::vector<NodeId> makers_;
  const std::vector<std::vector<ValueReader>> readers_;  // Indexed by ValueId.
  std::vector<bool> taken_;                              // Products.
  std::vector<Merge> merges_;                            // Indexed by NodeId of the fusion.
  std::vector<std::optional<Sum>> sums_;                 // Indexed by NodeId.
};

}  // namespace

LocalFunction fuse_products(const LocalFunction& local) {
  return rewrite_local(local, [](const Function& from, NodeId end, Bodies& bodies) {
    return ProductFuser(from, end, bodies).run();
  });
}

}  // namespace gangway::cuda
