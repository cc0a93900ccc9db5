#include "executor/devices/lower/kernel_family.h"

#include <map>

namespace gangway {

KernelFamily kernel_family(Op op) {
  switch (row(op).family) {
    case OpFamily::kElementwise: return KernelFamily::kElementwise;
    case OpFamily::kReduce: return KernelFamily::kReduce;
    case OpFamily::kDot: return KernelFamily::kDot;
    case OpFamily::kRandom: return KernelFamily::kRandom;
    case OpFamily::kShape:
    case OpFamily::kIndex:
    case OpFamily::kControl:
    case OpFamily::kComposite:
    case OpFamily::kCollective: break;
  }
  static const std::map<Op, KernelFamily> kByOp = {
      {Op::fusion, KernelFamily::kFusion},
      {Op::scan, KernelFamily::kBody},
      {Op::call, KernelFamily::kBody},
      {Op::custom_call, KernelFamily::kCustom},
      {Op::constant, KernelFamily::kFill},
      {Op::iota, KernelFamily::kFill},
      {Op::table, KernelFamily::kFill},
      {Op::reshape, KernelFamily::kCopy},
      {Op::barrier, KernelFamily::kCopy},
      {Op::constrain, KernelFamily::kCopy},
      {Op::stop_gradient, KernelFamily::kCopy},
      {Op::broadcast, KernelFamily::kMove},
      {Op::transpose, KernelFamily::kMove},
      {Op::slice, KernelFamily::kMove},
      {Op::concat, KernelFamily::kMove},
      {Op::pad, KernelFamily::kMove},
      {Op::dynamic_slice, KernelFamily::kWindow},
      {Op::dynamic_update, KernelFamily::kWindow},
      {Op::shard_slice, KernelFamily::kMesh},
      {Op::axis_index, KernelFamily::kMesh},
      {Op::keep_first, KernelFamily::kMesh},
      {Op::take, KernelFamily::kIndex},
      {Op::scatter_add, KernelFamily::kIndex},
      {Op::top_k, KernelFamily::kIndex},
      {Op::sort, KernelFamily::kIndex},
      {Op::softmax, KernelFamily::kSoftmax},
      {Op::softmax_grad, KernelFamily::kSoftmax},
      {Op::cross_entropy, KernelFamily::kSoftmax},
      {Op::cross_entropy_grad, KernelFamily::kSoftmax},
      {Op::cross_entropy_and_grad, KernelFamily::kSoftmax},
      {Op::rms_norm, KernelFamily::kNorm},
      {Op::rms_norm_grad, KernelFamily::kNorm},
      {Op::layer_norm, KernelFamily::kNorm},
      {Op::layer_norm_grad, KernelFamily::kNorm},
      {Op::attention, KernelFamily::kAttention},
      {Op::attention_grad, KernelFamily::kAttention},
      {Op::attention_decode, KernelFamily::kAttention},
      {Op::packed_attention, KernelFamily::kAttention},
      {Op::packed_attention_grad, KernelFamily::kAttention},
      {Op::grouped_dot, KernelFamily::kMoe},
      {Op::grouped_dot_grad_w, KernelFamily::kMoe},
      {Op::moe_route, KernelFamily::kMoe},
      {Op::moe_dispatch, KernelFamily::kMoe},
      {Op::moe_combine, KernelFamily::kMoe},
      {Op::moe_combine_grad_y, KernelFamily::kMoe},
      {Op::moe_combine_grad_w, KernelFamily::kMoe},
      {Op::sum_squares, KernelFamily::kReduce},
      {Op::adamw, KernelFamily::kAdamw},
  };
  const auto found = kByOp.find(op);
  return found == kByOp.end() ? KernelFamily::kStep : found->second;
}

}  // namespace gangway
