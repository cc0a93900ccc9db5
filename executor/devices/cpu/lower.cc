#include <map>
#include <string>

#include "executor/devices/cpu/kernel.h"
#include "ir/op_table/op.h"
#include "runtime/base/error.h"

namespace gangway::cpu {

void not_on_cpu(const LowerCall& call, const std::string& why) {
  throw no_kernel(call, "CPU", why);
}

namespace {

using Lowering = Lowered (*)(const LowerCall&);

// By family; `timed` and the collectives are steps of their own.
Lowering lowering_of(const OpRow& facts) {
  switch (facts.family) {
    case OpFamily::kElementwise: return facts.op == Op::constant ? lower_fill : lower_elementwise;
    case OpFamily::kReduce: return lower_reduce;
    case OpFamily::kDot: return lower_dot;
    case OpFamily::kRandom: return lower_random;
    case OpFamily::kShape:
    case OpFamily::kIndex:
    case OpFamily::kControl:
    case OpFamily::kComposite:
    case OpFamily::kCollective: break;
  }
  static const std::map<Op, Lowering> kByOp = {
      {Op::fusion, lower_fusion},
      {Op::custom_call, lower_custom},
      {Op::constant, lower_fill},
      {Op::iota, lower_fill},
      {Op::reshape, lower_copy},
      {Op::barrier, lower_copy},
      {Op::stop_gradient, lower_copy},
      {Op::broadcast, lower_move},
      {Op::transpose, lower_move},
      {Op::slice, lower_move},
      {Op::concat, lower_move},
      {Op::pad, lower_move},
      {Op::shard_slice, lower_move},
      {Op::dynamic_slice, lower_window},
      {Op::dynamic_update, lower_window},
      {Op::take, lower_index},
      {Op::scatter_add, lower_index},
      {Op::top_k, lower_index},
      {Op::sort, lower_index},
      {Op::softmax, lower_softmax},
      {Op::softmax_grad, lower_softmax},
      {Op::cross_entropy, lower_softmax},
      {Op::cross_entropy_grad, lower_softmax},
      {Op::rms_norm, lower_norm},
      {Op::rms_norm_grad, lower_norm},
      {Op::layer_norm, lower_norm},
      {Op::layer_norm_grad, lower_norm},
      {Op::attention, lower_attention},
      {Op::attention_grad, lower_attention},
      {Op::attention_decode, lower_attention},
      {Op::grouped_dot, lower_moe},
      {Op::grouped_dot_grad_w, lower_moe},
      {Op::moe_route, lower_moe},
      {Op::moe_dispatch, lower_moe},
      {Op::moe_combine, lower_moe},
      {Op::moe_combine_grad_y, lower_moe},
      {Op::moe_combine_grad_w, lower_moe},
      {Op::sum_squares, lower_reduce},
      {Op::adamw, lower_adamw},
  };
  auto found = kByOp.find(facts.op);
  return found == kByOp.end() ? nullptr : found->second;
}

}  // namespace

bool has_kernel(Op op) { return lowering_of(row(op)) != nullptr; }

Lowered lower(const LowerCall& call) {
  const Lowering lowering = lowering_of(row(call.node().op));
  GW_ASSERT(lowering != nullptr, to_string(call.node().op), " is a step, not a kernel");
  return lowering(call);
}

}  // namespace gangway::cpu
