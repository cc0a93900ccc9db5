#include <string>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/kernel_family.h"
#include "ir/op_table/op.h"

namespace gangway::cpu {

void not_on_cpu(const LowerCall& call, const std::string& why) {
  throw no_kernel(call, "CPU", why);
}

Lowered lower(const LowerCall& call) {
  switch (kernel_family(call.op())) {
    case KernelFamily::kElementwise: return lower_elementwise(call);
    case KernelFamily::kFusion: return lower_fusion(call);
    case KernelFamily::kFill: return lower_fill(call);
    case KernelFamily::kCopy: return lower_copy(call);
    case KernelFamily::kMove: return lower_move(call);
    case KernelFamily::kWindow: return lower_window(call);
    case KernelFamily::kMesh: return lower_mesh(call);
    case KernelFamily::kReduce: return lower_reduce(call);
    case KernelFamily::kDot: return lower_dot(call);
    case KernelFamily::kIndex: return lower_index(call);
    case KernelFamily::kRandom: return lower_random(call);
    case KernelFamily::kSoftmax: return lower_softmax(call);
    case KernelFamily::kNorm: return lower_norm(call);
    case KernelFamily::kAttention: return lower_attention(call);
    case KernelFamily::kMoe: return lower_moe(call);
    case KernelFamily::kAdamw: return lower_adamw(call);
    case KernelFamily::kCustom: return lower_custom(call);
    case KernelFamily::kBody: return lower_carries(call);
    case KernelFamily::kStep: break;
  }
  not_on_cpu(call, "its members can't meet on this kind of device");
}

}  // namespace gangway::cpu
