#include "programs/strategies/megatron.h"

namespace gangway::programs {

Strategy megatron() {
  const auto cut = [](int dim) -> AxisPlacements {
    return {{std::string(kModelAxis), shard(dim)}};
  };
  return {.parameters = {
              {"*.attn.qkv", cut(2), kComputePriority},
              {"*.attn.o", cut(0), kComputePriority},
              {"*.ffn.up|*.ffn.gate|*.residual.up|*.residual.gate", cut(1), kComputePriority},
              {"*.ffn.down|*.residual.down", cut(0), kComputePriority},
              {"*.moe.up|*.moe.gate", cut(2), kComputePriority},
              {"*.moe.down", cut(1), kComputePriority}}};
}

}  // namespace gangway::programs
