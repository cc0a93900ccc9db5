// Stands in for fused_attention.cc where there was no cuDNN to build with.
#include "executor/devices/cuda/module/fused_attention.h"

namespace gangway::cuda {

FusedAttention::FusedAttention(uint32_t architecture) : architecture_(architecture) {}
FusedAttention::~FusedAttention() = default;

Result<std::shared_ptr<const FusedOperation>> FusedAttention::prepare(const AttentionShape&,
                                                                      AttentionPass) {
  return Error(ErrorKind::kUnimplemented, "cuda: built without cuDNN");
}

}  // namespace gangway::cuda
