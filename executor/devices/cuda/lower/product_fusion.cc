#include "executor/devices/cuda/lower/product_fusion.h"

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "executor/devices/lower/dot_plan.h"
#include "executor/devices/lower/to_fused.h"
#include "ir/graph/bodies.h"
#include "ir/plan/step_map.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

constexpr size_t kTermLengthMax = 2000;  // Of what could be an activation; sharing multiplies.

// A value of a chain, written out from the product x and the bias b; operands that may be exchanged
// in one order. Equal terms are equal values.
using Term = std::string;

Term number(double value) { return cat("#", std::bit_cast<uint64_t>(value)); }

bool commutes(FusedOp op) {
  return op == FusedOp::kAdd || op == FusedOp::kMul || op == FusedOp::kMax;
}

Term apply(FusedOp op, Term a, Term b = {}) {
  if (commutes(op) && b < a) std::swap(a, b);
  return cat(static_cast<int>(op), "(", a, b.empty() ? "" : ",", b, ")");
}

// As gelu() of ir/build/ops.h writes it.
Term gelu(const Term& x) {
  const Term cubed = apply(FusedOp::kMul, apply(FusedOp::kMul, x, x), x);
  const Term sum = apply(FusedOp::kAdd, x, apply(FusedOp::kMul, cubed, number(0.044715)));
  const Term inner = apply(FusedOp::kMul, sum, number(std::sqrt(2 / std::numbers::pi)));
  return apply(FusedOp::kMul, apply(FusedOp::kMul, x, number(0.5)),
               apply(FusedOp::kAdd, apply(FusedOp::kTanh, inner), number(1)));
}

Term relu(const Term& x) { return apply(FusedOp::kMax, x, number(0)); }

// Empty: longer than any activation, or with other instructions than they have.
Term term_of(const FusedProgram& program, std::vector<Term> terms) {
  for (const FusedInstruction& code : program.code) {
    const auto operand = [&](size_t i) { return terms[static_cast<size_t>(code.in[i])]; };
    if (code.op == FusedOp::kConstant) {
      terms.push_back(number(code.immediate));
    } else if (code.op == FusedOp::kTanh) {
      terms.push_back(apply(code.op, operand(0)));
    } else if (commutes(code.op)) {
      terms.push_back(apply(code.op, operand(0), operand(1)));
    } else {
      return {};
    }
    if (terms.back().size() > kTermLengthMax) return {};
  }
  return terms[static_cast<size_t>(program.outputs[0].value)];
}

std::optional<Activation> activation_of(const Term& term, const Term& x) {
  if (term == x) return Activation::kNone;
  if (term == relu(x)) return Activation::kRelu;
  if (term == gelu(x)) return Activation::kGeluTanh;
  return {};
}

// A fusion takes in the product of its input `place`.
struct Merge {
  NodeId product = kNone;
  size_t place = 0;
  bool kept = false;  // Others need the product too.
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
  }

  Rewritten run() {
    for (NodeId id = 0; id < end_; ++id) {
      for (size_t i = 0; i < from_.nodes[id].inputs.size() && !merged(id); ++i) consider(id, i);
    }
    Rewriter out(from_);
    std::vector<NodeId> now;
    for (NodeId id = 0; id < from_.nodes.size(); ++id) {
      now.push_back(static_cast<NodeId>(out.target().nodes.size()));
      if (merged(id)) {
        append(out, id);
      } else if (!taken_[id]) {
        out.copy(id);
        rewrite_body(from_.nodes[id], out.target().nodes.back());
      }
    }
    now.push_back(static_cast<NodeId>(out.target().nodes.size()));
    return {std::make_shared<const Function>(out.finish()), std::move(now)};
  }

 private:
  bool merged(NodeId id) const { return merges_[id].product != kNone; }

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
    const ValueId value = fusion.inputs[place];
    const NodeId maker = makers_[value];
    if (maker == kNone || from_.nodes[maker].op != Op::dot || taken_[maker]) return;
    const std::shared_ptr<const Function> body = chain_of(fusion);
    if (body == nullptr || body->results.size() != 1) return;
    const auto tail = product_tail(*body, static_cast<uint32_t>(place));
    if (!tail) return;
    const Node& product = from_.nodes[maker];
    const DotPlan plan = plan_dot(product.attrs, from_.types[product.inputs[0]],
                                  from_.types[product.inputs[1]], from_.types[value].dtype);
    const bool biased = tail->bias != kNone;
    if (biased && body->types[tail->bias].elements() != plan.desc.n) return;
    Merge merge{.product = maker, .place = place};
    for (NodeId user : uses_[value]) {
      if (user == id) continue;
      if (user < id) return;  // It can't wait for the chain.
      merge.kept = true;
    }
    if (merge.kept && (biased || tail->added != kNone)) return;  // It would have these in it.
    taken_[maker] = true;
    merges_[id] = merge;
  }

  // The body of a fusion, or of a sum alone as if it were one; null: neither.
  std::shared_ptr<const Function> chain_of(const Node& node) const {
    if (node.op == Op::fusion) return node.body;
    if (node.op != Op::add || node.inputs[0] == node.inputs[1]) return nullptr;
    const Type& type = from_.types[node.first_result];
    auto sum = std::make_shared<Function>();
    sum->name = "sum";
    sum->mesh = from_.mesh;
    sum->local = true;
    sum->parameters = {{"a", {}}, {"b", {}}};
    sum->types = {type, type, type};
    sum->nodes = {{.op = Op::add, .inputs = {0, 1}, .first_result = 2, .results = 1}};
    sum->results = {2};
    sum->result_names = {"sum"};
    sum->infos.resize(1);
    return sum;
  }

  void append(Rewriter& out, NodeId id) const {
    const Node& fusion = from_.nodes[id];
    const Merge& merge = merges_[id];
    const Node& product = from_.nodes[merge.product];
    Node node{.op = Op::fusion, .attrs = product.attrs, .body = chain_of(fusion)};
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
};

}  // namespace

std::optional<ProductTail> product_tail(const Function& body, uint32_t product) {
  const DType dtype = body.types[product].dtype;
  const FusedChain chain = to_fused(body);
  ProductTail tail;
  std::vector<Term> terms;
  for (size_t i = 0; i < chain.inputs.size(); ++i) {
    const FusedInput& input = chain.program.inputs[i];
    const uint32_t parameter = chain.inputs[i].parameter;
    const bool is_product = parameter == product;
    if (chain.inputs[i].spread != kNone || input.dtype != dtype) return {};
    const bool is_full = input.kind == FusedInput::kFull;
    if (!is_full && (is_product || input.kind != FusedInput::kInner)) return {};
    if (!is_product && (tail.bias != kNone || tail.added != kNone)) return {};
    if (!is_product) (is_full ? tail.added : tail.bias) = parameter;
    terms.emplace_back(is_product ? "x" : "b");
  }
  for (const FusedInstruction& code : chain.program.code) {
    if (code.dtype != dtype) return {};
  }
  if (chain.program.outputs[0].dtype != dtype) return {};
  const Term term = term_of(chain.program, terms);
  const bool is_sum = tail.bias != kNone || tail.added != kNone;
  const Term x = is_sum ? apply(FusedOp::kAdd, "x", "b") : Term("x");
  const std::optional<Activation> activation = activation_of(term, x);
  if (!activation || (tail.added != kNone && *activation != Activation::kNone)) return {};
  tail.activation = *activation;
  return tail;
}

namespace {

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
