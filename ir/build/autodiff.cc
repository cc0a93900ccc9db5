#include "ir/build/autodiff.h"

#include "ir/build/backward.h"
#include "ir/build/builder.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

void require_differentiable(Value loss, const std::vector<Value>& wrt, Loc loc) {
  GW_REQUIRE(is_float(loss.dtype()) && loss.rank() == 0,
             "gradients: the loss must be a float scalar, got ", to_string(loss.type()), "\n  at ",
             to_string(loc));
  for (const Value& x : wrt) {
    GW_REQUIRE(!x.empty() && &x.builder() == &loss.builder(),
               "gradients: a wanted value belongs to another function\n  at ", to_string(loc));
    GW_REQUIRE(is_float(x.dtype()), "gradients: only float values have gradients, a wanted one is ",
               to_string(x.type()), "\n  at ", to_string(loc));
  }
}

}  // namespace

std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt, Loc loc) {
  Builder& builder = loss.builder();
  require_differentiable(loss, wrt, loc);
  std::vector<ValueId> wanted;
  wanted.reserve(wrt.size());
  for (const Value& x : wrt) wanted.push_back(x.id());
  const auto nodes = static_cast<NodeId>(builder.function().nodes.size());
  internal::Backward backward(builder, internal::active_values(builder.function(), nodes, wanted),
                              loc);
  if (backward.active(loss.id())) {
    Builder::Derived derived(builder, producers(builder.function())[loss.id()], Reason::kGradient);
    backward.seed(loss.id(), builder.constant(loss.type(), 1.0, loc));
  }
  backward.run();
  std::vector<Value> out;
  for (const Value& x : wrt) {
    Value found = backward.cotangent(x.id());
    out.push_back(found.empty() ? builder.constant(x.type(), 0.0, loc) : found);
  }
  // Rules add the cotangents of all operands; nodes that only frozen operands need are removed.
  builder.prune(nodes, out);
  return out;
}

Tree gradients(Value loss, const Tree& wrt, Loc loc) {
  std::vector<Value> leaves;
  wrt.for_each([&](const std::string&, const Value& value) { leaves.push_back(value); });
  std::vector<Value> grads = gradients(loss, leaves, loc);
  size_t next = 0;
  return wrt.map([&](const std::string&, const Value&) { return grads[next++]; });
}

}  // namespace gangway
