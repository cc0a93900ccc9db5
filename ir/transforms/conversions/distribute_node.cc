#include "ir/transforms/conversions/distribute_node.h"

#include <memory>

#include "ir/build/builder.h"
#include "ir/op_table/distributed_op.h"
#include "ir/transforms/conversions/steps/step.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// The builder is in the scopes of a node while this lives.
class InScopesOf {
 public:
  InScopesOf(Builder& builder, const Function& function, uint32_t loc) {
    std::vector<const LocEntry*> chain;
    for (uint32_t at = loc; at != kNone; at = function.locs[at].parent)
      chain.push_back(&function.locs[at]);
    for (; !chain.empty(); chain.pop_back()) {
      const LocEntry& entry = *chain.back();
      if (entry.scope.empty()) continue;
      scopes_.push_back(std::make_unique<Builder::Scope>(
          builder, entry.scope, Loc{.file = entry.file.c_str(), .line = entry.line}));
    }
  }
  ~InScopesOf() {
    while (!scopes_.empty()) scopes_.pop_back();
  }
  InScopesOf(const InScopesOf&) = delete;

 private:
  std::vector<std::unique_ptr<Builder::Scope>> scopes_;
};

Loc line_of_node(const Function& function, uint32_t loc) {
  if (loc == kNone) return {};
  return {.file = function.locs[loc].file.c_str(), .line = function.locs[loc].line};
}

// Traces a function of the inputs.
Function traced(Rewriter& out, NodeId id, std::span<const ValueId> inputs, const Tracing& trace) {
  const Function& global = out.source();
  const uint32_t loc = global.infos[id].loc;
  Builder builder(cat(to_string(global.nodes[id].op), " in parts"), global.mesh);
  const InScopesOf scopes(builder, global, loc);
  const LocScope line(line_of_node(global, loc));
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back(builder.parameter(cat("operand", i), out.target().types[inputs[i]]));
  for (const Value& result : trace(builder, values)) builder.result("result", result);
  return map_bodies(builder.build(), [](Function body) {
    body.local = true;
    return body;
  });
}

}  // namespace

std::vector<ValueId> distribute_node(Rewriter& out, const DistributedNode& node) {
  const Mesh& mesh = out.source().mesh;
  const std::string axes = conversions::names_of(mesh, {node.axes.begin(), node.axes.end()});
  const int64_t members = conversions::size_of_axes(mesh, node.axes);
  const auto build = distributed_op_of(node.call.op, node.factor.distributed_op).build;
  return trace_nodes(out, node.id, node.inputs,
                     [&](Builder& builder, const std::vector<Value>& inputs) {
                       return build({.builder = builder,
                                     .call = node.call,
                                     .attrs = node.attrs,
                                     .axes = axes,
                                     .members = members,
                                     .inputs = inputs});
                     });
}

std::vector<ValueId> trace_nodes(Rewriter& out, NodeId id, std::span<const ValueId> inputs,
                                 const Tracing& trace) {
  const Function part = traced(out, id, inputs, trace);
  const NodeInfo info{
      .loc = out.source().infos[id].loc, .origin = id, .reason = Reason::kPartition};
  std::vector<ValueId> now(inputs.begin(), inputs.end());
  now.resize(part.types.size(), kNone);
  for (NodeId n = 0; n < part.nodes.size(); ++n) out.copy(part, n, now, info);
  std::vector<ValueId> results;
  for (ValueId result : part.results) results.push_back(now[result]);
  return results;
}

}  // namespace gangway
