#include "ir/transforms/conversions/lower_node.h"

#include <memory>

#include "ir/build/builder.h"
#include "ir/op_table/lowering.h"
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

// Traces the lowering as a function of the local operands.
Function traced(Rewriter& out, const LoweredNode& node) {
  const Function& global = out.source();
  const uint32_t loc = global.infos[node.id].loc;
  Builder builder(cat(to_string(node.call.op), " in parts"), global.mesh);
  const InScopesOf scopes(builder, global, loc);
  const LocScope line(line_of_node(global, loc));
  std::vector<Value> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(builder.parameter(cat("operand", i), out.target().types[node.inputs[i]]));
  const std::string axes = conversions::names_of(global.mesh, {node.axes.begin(), node.axes.end()});
  const LoweringCall call{.builder = builder,
                          .call = node.call,
                          .attrs = node.attrs,
                          .axes = axes,
                          .members = conversions::size_of_axes(global.mesh, node.axes),
                          .inputs = inputs};
  for (const Value& result : lowering_of(node.call.op, node.factor.lowering).build(call))
    builder.result("result", result);
  return map_bodies(builder.build(), [](Function body) {
    body.local = true;
    return body;
  });
}

}  // namespace

std::vector<ValueId> lower_node(Rewriter& out, const LoweredNode& node) {
  const Function part = traced(out, node);
  const NodeInfo info{
      .loc = out.source().infos[node.id].loc, .origin = node.id, .reason = Reason::kPartition};
  std::vector<ValueId> now(node.inputs.begin(), node.inputs.end());
  now.resize(part.types.size(), kNone);
  for (NodeId id = 0; id < part.nodes.size(); ++id) out.copy(part, id, now, info);
  std::vector<ValueId> results;
  for (ValueId result : part.results) results.push_back(now[result]);
  return results;
}

}  // namespace gangway
