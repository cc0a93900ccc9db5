#include "ir/transforms/rewrite/pack_attention.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/packable_attention.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "ir/transforms/rewrite/simplify.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

using Bodies = std::map<const Function*, std::shared_ptr<const Function>>;

// Writes one function anew. A body gets a parameter for each triple that is given to it, behind its
// own, and a result for each that it stacks, in the order of the triples.
class Packer {
 public:
  Packer(const Function& source, const PackableAttention& packable, Bodies& bodies)
      : source_(source),
        packable_(packable),
        triples_(packable.of(source)),
        bodies_(bodies),
        makers_(producers(source)),
        packed_(triples_.size(), kNone),
        out_(source) {}

  Function run() {
    for (size_t t = 0; t < triples_.size(); ++t) {
      for (const NodeId id : triples_[t].attends) attends_[id] = t;
      if (triples_[t].is_given) {
        take(t);
        continue;
      }
      for (const ValueId value : triples_[t].values) products_[makers_[value]] = t;
    }
    for (NodeId id = 0; id < source_.nodes.size(); ++id) visit(id);
    Function made = out_.finish();
    for (size_t t = 0; t < triples_.size(); ++t) {
      if (!triples_[t].is_stacked) continue;
      made.results.push_back(packed_[t]);
      made.result_names.push_back(cat("qkv.", t));
    }
    return made;
  }

 private:
  // One of dq, dk, dv.
  struct Part {
    ValueId packed = kNone;  // In the new function.
    size_t index = 0;
  };
  using Parts = std::array<ValueId, 3>;

  void take(size_t t) {
    packed_[t] = out_.target().value_count();
    out_.target().parameters.push_back({.name = cat("qkv.", t), .placements = {}});
    Type type = source_.types[triples_[t].values[0]];
    type.dims.back() *= 3;
    out_.target().types.push_back(std::move(type));
  }

  void visit(NodeId id) {
    const Node& node = source_.nodes[id];
    if (shares_body(node.op)) return emit_loop(id);
    if (const auto product = products_.find(id); product != products_.end())
      return emit_product(id, product->second);
    if (const auto attends = attends_.find(id); attends != attends_.end())
      return emit_attention(id, packed_[attends->second]);
    if (node.op == Op::dot) {
      const auto part = parts_.find(node.inputs[1]);
      if (part != parts_.end()) return emit_columns(id, part->second);
    }
    out_.copy(id);
  }

  // Once all three weights are there.
  void emit_product(NodeId id, size_t t) {
    std::vector<ValueId> weights;
    for (const ValueId value : triples_[t].values) {
      if (makers_[value] > id) return;
      weights.push_back(out_.at(source_.nodes[makers_[value]].inputs[1]));
    }
    const Node& node = source_.nodes[id];
    const int64_t columns = 1 - node.attrs.ints("rhs_contract")[0];
    const ValueId joined = emit(Op::concat, std::move(weights), {{"axis", columns}}, id);
    packed_[t] = emit(Op::dot, {out_.at(node.inputs[0]), joined}, node.attrs, id);
    if (!triples_[t].is_stacked) return;
    // The results themselves, which nothing reads any more.
    const Parts parts = cut(packed_[t], id);
    for (size_t i = 0; i < parts.size(); ++i) out_.set(triples_[t].values[i], parts[i]);
  }

  void emit_attention(NodeId id, ValueId qkv) {
    const Node& node = source_.nodes[id];
    const bool is_grad = node.op == Op::attention_grad;
    std::vector<ValueId> inputs = {qkv};
    for (size_t i = 3; i < node.inputs.size(); ++i) inputs.push_back(out_.at(node.inputs[i]));
    const Op op = is_grad ? Op::packed_attention_grad : Op::packed_attention;
    const ValueId made = emit(op, std::move(inputs), node.attrs, id);
    if (!is_grad) {
      for (uint32_t r = 0; r < node.results; ++r) out_.set(node.first_result + r, made + r);
      return;
    }
    const Parts parts = cut(made, id);
    for (size_t i = 0; i < parts.size(); ++i) {
      const ValueId part = node.first_result + static_cast<ValueId>(i);
      out_.set(part, parts[i]);
      parts_[part] = {made, i};
    }
  }

  // x dq is the first third of x dqkv.
  void emit_columns(NodeId id, const Part& part) {
    const Node& node = source_.nodes[id];
    const auto [at, is_new] =
        columns_.try_emplace({part.packed, node.inputs[0], attrs_key(node.attrs)});
    if (is_new)
      at->second = cut(emit(Op::dot, {out_.at(node.inputs[0]), part.packed}, node.attrs, id), id);
    out_.set(node.first_result, at->second[part.index]);
  }

  // In thirds of the last dimension.
  Parts cut(ValueId packed, NodeId id) {
    const Dims dims = out_.target().types[packed].dims;
    Dims starts(dims.size(), 0), limits = dims;
    Parts parts = {};
    for (ValueId& part : parts) {
      limits.back() = starts.back() + dims.back() / 3;
      part = emit(Op::slice, {packed},
                  {{"starts", starts}, {"limits", limits}, {"strides", Dims(dims.size(), 1)}}, id);
      starts.back() = limits.back();
    }
    return parts;
  }

  std::shared_ptr<const Function> body_of(const Node& node) {
    const auto known = bodies_.find(node.body.get());
    if (known != bodies_.end()) return known->second;
    auto made = std::make_shared<const Function>(Packer(*node.body, packable_, bodies_).run());
    return bodies_[node.body.get()] = std::move(made);
  }

  void emit_loop(NodeId id) {
    Node node = source_.nodes[id];
    const Function& before = *node.body;
    for (ValueId& input : node.inputs) input = out_.at(input);
    for (const PackedTriple& triple : packable_.of(before)) {
      if (!triple.is_given) continue;
      const auto [loop, index] = *packable_.given(source_, id, triple);
      node.inputs.push_back(more_results(loop) + stacked_before(loop, index));
    }
    const auto begin = source_.types.begin() + node.first_result;
    std::vector<Type> types(begin, begin + node.results);
    for (const PackedTriple& triple : packable_.of(before)) {
      if (!triple.is_stacked) continue;
      types.push_back(types[triple.stacks[0]]);
      types.back().dims.back() *= 3;
    }
    node.body = body_of(source_.nodes[id]);
    const uint32_t results = node.results;
    const ValueId old = node.first_result;
    const ValueId first = out_.append(std::move(node), types, source_.infos[id]);
    for (uint32_t r = 0; r < results; ++r) out_.set(old + r, first + r);
  }

  // Behind the loop's own results.
  ValueId more_results(NodeId loop) const {
    const Node& node = source_.nodes[loop];
    return out_.at(node.first_result) + node.results;
  }
  ValueId stacked_before(NodeId loop, size_t triple) const {
    const std::vector<PackedTriple>& of = packable_.of(*source_.nodes[loop].body);
    const auto end = of.begin() + static_cast<std::ptrdiff_t>(triple);
    return static_cast<ValueId>(
        std::count_if(of.begin(), end, [](const PackedTriple& t) { return t.is_stacked; }));
  }

  ValueId emit(Op op, std::vector<ValueId> inputs, Attrs attrs, NodeId id) {
    std::vector<Type> types;
    for (const ValueId input : inputs) types.push_back(out_.target().types[input]);
    types = infer_types(op, types, attrs);
    return out_.append({.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)}, types,
                       source_.infos[id]);
  }

  const Function& source_;
  const PackableAttention& packable_;
  const std::vector<PackedTriple>& triples_;
  Bodies& bodies_;
  const std::vector<NodeId> makers_;
  std::vector<ValueId> packed_;                  // Indexed by triple; values of the new function.
  std::map<NodeId, size_t> products_, attends_;  // Index of the node's triple.
  std::map<ValueId, Part> parts_;                // Keyed by value of the source.
  std::map<std::tuple<ValueId, ValueId, std::string>, Parts> columns_;
  Rewriter out_;
};

}  // namespace

Function pack_attention(const Function& local) {
  const PackableAttention packable(local);
  if (packable.none()) return local;
  Bodies bodies;
  return simplify(Packer(local, packable, bodies).run());
}

}  // namespace gangway
