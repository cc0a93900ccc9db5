#include "tests/numerics/lowered_functions.h"

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "runtime/base/cat.h"

namespace gangway::numerics {
namespace {

AxisPlacements cut_by(const std::vector<std::string>& axes, int dim) {
  AxisPlacements placements;
  for (size_t i = 0; i < axes.size(); ++i)
    placements.emplace_back(axes[i], shard(dim, static_cast<int>(i)));
  return placements;
}

AxisPlacements operator+(AxisPlacements a, const AxisPlacements& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void add_ops(const Function& function, std::vector<std::string>& names) {
  for (const Node& node : function.nodes) {
    names.emplace_back(to_string(node.op));
    if (node.op == Op::scan) add_ops(*node.body, names);
  }
}

}  // namespace

Function vocabulary_model(const Mesh& mesh, const VocabularySizes& sizes, CallContext& context) {
  Builder b("model", mesh);
  const AxisPlacements rows = cut_by(sizes.of_batch, 0);
  const AxisPlacements table_cut = cut_by(sizes.of_words, 0), w_cut = cut_by(sizes.of_words, 1);
  const Value table = b.parameter("table", Type{sizes.dtype, {sizes.words, sizes.dim}}, table_cut);
  const Value w = b.parameter("w", Type{sizes.dtype, {sizes.dim, sizes.words}}, w_cut);
  const Value index = b.parameter("index", i32({sizes.batch, sizes.seq}), rows);
  const Value labels = b.parameter("labels", i32({sizes.batch, sizes.seq}), rows);
  const Value logits = dot(tanh(take(table, index)), w);
  const Value losses = cross_entropy(logits, labels);
  const std::vector<Value> gradient = gradients(mean(losses), {table, w});
  b.result("losses", losses);
  b.result("dtable", gradient[0]);
  b.result("dw", gradient[1]);
  context.result_placements = {{}, table_cut, w_cut};
  return b.build();
}

Function attention_layer(const Mesh& mesh, const AttentionSizes& sizes, CallContext& context) {
  Builder b("layer", mesh);
  const Type x_type{sizes.dtype, {sizes.batch, sizes.seq, sizes.dim()}};
  const Type w_type{sizes.dtype, {sizes.dim(), sizes.dim()}};
  const AxisPlacements rows = cut_by(sizes.of_batch, 0) + cut_by(sizes.of_seq, 1);
  const AxisPlacements columns = cut_by(sizes.of_heads, 1);
  const Value x = b.parameter("x", x_type, rows), weight = b.parameter("weight", x_type, rows);
  const AttentionOptions options{.heads = sizes.heads, .causal = sizes.causal};
  std::vector<Value> wrt = {x};
  Value mixed;
  context.result_placements = {rows + cut_by(sizes.of_heads, 2), rows};
  if (sizes.packed) {
    const AxisPlacements heads = cut_by(sizes.of_heads, 2);
    wrt.push_back(b.parameter("qkv", {sizes.dtype, {sizes.dim(), 3, sizes.dim()}}, heads));
    mixed = packed_attention(dot_general(x, wrt[1], {.lhs_contract = {2}, .rhs_contract = {0}}),
                             options);
    context.result_placements.push_back(heads);
  } else {
    for (const char* name : {"wq", "wk", "wv"}) {
      wrt.push_back(b.parameter(name, w_type, columns));
      context.result_placements.push_back(columns);
    }
    mixed = attention(dot(x, wrt[1]), dot(x, wrt[2]), dot(x, wrt[3]), options);
  }
  b.result("mixed", mixed);
  const std::vector<Value> gradient = gradients(sum(square(mixed) * weight), wrt);
  for (size_t i = 0; i < gradient.size(); ++i) b.result(cat("d", i), gradient[i]);
  return b.build();
}

Function attention_layers(const Mesh& mesh, const AttentionSizes& sizes, CallContext& context) {
  Builder b("layers", mesh);
  const int64_t layers = 2;
  const Type x_type{sizes.dtype, {sizes.batch, sizes.seq, sizes.dim()}};
  const Type w_type{sizes.dtype, {layers, sizes.dim(), sizes.dim()}};
  const AxisPlacements rows = cut_by(sizes.of_batch, 0) + cut_by(sizes.of_seq, 1);
  const AxisPlacements columns = cut_by(sizes.of_heads, 2);
  const Value x = b.parameter("x", x_type, rows);
  Tree weights;
  for (const char* name : {"wq", "wk", "wv"}) weights.set(name, b.parameter(name, w_type, columns));
  const Value y =
      scan(b, {.length = layers, .carries = x, .stacked = weights},
           [&](const ScanStep& at) -> Scanned {
             const Value h = at.carries;
             const auto through = [&](const char* w) { return dot(h, at.slices[w]); };
             return {.carries = h + attention(through("wq"), through("wk"), through("wv"),
                                              {.heads = sizes.heads, .causal = sizes.causal})};
           })
          .carries;
  b.result("y", y);
  context.result_placements = {rows, rows, columns};
  const std::vector<Value> gradient = gradients(sum(square(y)), {x, weights["wk"]});
  b.result("dx", gradient[0]);
  b.result("dwk", gradient[1]);
  return b.build();
}

std::vector<std::string> op_names(const Function& function) {
  std::vector<std::string> names;
  add_ops(function, names);
  return names;
}

}  // namespace gangway::numerics
