#include "executor/devices/cuda/lower/product_fusion.h"

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "executor/devices/cuda/lower/product_tail.h"
#include "executor/devices/lower/dot_plan.h"
#include "ir/graph/bodies.h"
#include "ir/plan/step_map.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// A fusion takes in the product of its input `place`.
struct Merge {
  NodeId product = kNone;
  size_t place = 0;
  bool kept = false;  // Others need the product too.
};

// A sum of tensors, of which products take in what came before them.
struct Sum {
  std::vector<ValueId> others;
  std::vector<NodeId> products;
};

// A function written anew. By NodeId, and the number of nodes: where a node is now, or what comes
// behind it.
struct Rewritten {
  std::shared_ptr<const Function> function;
  std::vector<NodeId> now;
};

// Bodies of scans and calls, each written once however many nodes name it.
using Bodies = std::map<const Function*, Rewritten>;

// Bodies that stay as they are, wherever they are named: those of nodes from `end` on, and those
// that work ahead, of which a product and its chain may not both be passed over. `all`: every one.
void keep_bodies(const Function& of, NodeId end, bool all, Bodies& bodies) {
  for (NodeId id = 0; id < of.nodes.size(); ++id) {
    const Node& node = of.nodes[id];
    if (!shares_body(node.op) || node.body == nullptr) continue;
    const bool kept = all || id >= end || ScanLayout(node).ahead > 0;
    const Function& body = *node.body;
    if (kept && bodies.contains(&body)) continue;
    if (kept) {
      std::vector<NodeId> now(body.nodes.size() + 1);
      std::iota(now.begin(), now.end(), NodeId{0});
      bodies.emplace(&body, Rewritten{node.body, std::move(now)});
    }
    keep_bodies(body, static_cast<NodeId>(body.nodes.size()), kept, bodies);
  }
}

class ProductFuser {
 public:
  // What is from node `end` on stays as it is.
  ProductFuser(const Function& from, NodeId end, Bodies& bodies)
      : from_(from), end_(end), bodies_(bodies), makers_(producers(from_)) {
    uses_.resize(from_.types.size());
    for (NodeId id = 0; id < from_.nodes.size(); ++id) {
      for (ValueId input : from_.nodes[id].inputs) uses_[input].push_back(id);
    }
    for (ValueId result : from_.results) uses_[result].push_back(kNone);
    taken_.assign(from_.nodes.size(), false);
    merges_.resize(from_.nodes.size());
    sums_.resize(from_.nodes.size());
  }

  Rewritten run() {
    for (NodeId id = 0; id < end_; ++id) {
      consider_sum(id);
      for (size_t i = 0; i < from_.nodes[id].inputs.size() && !written(id); ++i) consider(id, i);
    }
    Rewriter out(from_);
    std::vector<NodeId> now;
    for (NodeId id = 0; id < from_.nodes.size(); ++id) {
      now.push_back(static_cast<NodeId>(out.target().nodes.size()));
      if (written(id)) {
        sums_[id] ? append_sum(out, id) : append(out, id);
      } else if (!taken_[id]) {
        out.copy(id);
        rewrite_body(from_.nodes[id], out.target().nodes.back());
      }
    }
    now.push_back(static_cast<NodeId>(out.target().nodes.size()));
    return {std::make_shared<const Function>(out.finish()), std::move(now)};
  }

 private:
  // Not as it was.
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
      if (product != kNone && uses_[input].size() == 1) {
        sum.products.push_back(product);
      } else {
        sum.others.push_back(input);
      }
    }
    // One that nothing comes before stays a product.
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

  void rewrite_body(const Node& before, Node& node) const {
    if (!shares_body(before.op) || before.body == nullptr) return;
    const auto known = bodies_.find(before.body.get());
    if (known != bodies_.end()) {
      node.body = known->second.function;
      return;
    }
    const auto nodes = static_cast<NodeId>(before.body->nodes.size());
    Rewritten made = ProductFuser(*before.body, nodes, bodies_).run();
    node.body = made.function;
    bodies_.emplace(before.body.get(), std::move(made));
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
    for (NodeId user : uses_[value]) {
      if (user == id) continue;
      if (user < id) return;  // It can't wait for the chain.
      merge.kept = true;
    }
    // It would have these in it.
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
  std::vector<std::vector<NodeId>> uses_;  // By ValueId; kNone: a result of the function.
  std::vector<bool> taken_;                // Products.
  std::vector<Merge> merges_;              // By NodeId of the fusion.
  std::vector<std::optional<Sum>> sums_;   // By NodeId.
};

// The same step, or the one that comes behind it. Parts have the same numbers before and after.
uint32_t moved_step(const StepMap& before, const StepMap& after, const Bodies& written,
                    uint32_t step) {
  uint32_t moved = 0;
  for (const StepMap::Level& level : before.path(step)) {
    const auto found = written.find(level.function);
    const NodeId node = found == written.end() ? level.node : found->second.now[level.node];
    moved += after.first_step(level.part, node);
    const uint32_t body = before.body_of(level.function->nodes[level.node]);
    if (body != kNone) moved += level.iteration * after.steps_of(body);
  }
  return moved;
}

}  // namespace

LocalFunction fuse_products(const LocalFunction& local) {
  Bodies written;
  // What is behind the commit point writes state in place.
  keep_bodies(*local.function, local.commit_begin, false, written);
  Rewritten main = ProductFuser(*local.function, local.commit_begin, written).run();
  LocalFunction made = local;
  made.function = main.function;
  made.commit_begin = main.now[local.commit_begin];
  if (made.sections.empty()) return made;
  written.emplace(local.function.get(), std::move(main));
  const StepMap before(*local.function), after(*made.function);
  for (LocalFunction::Section& section : made.sections)
    section.begin = moved_step(before, after, written, section.begin);
  return made;
}

}  // namespace gangway::cuda
