#include "programs/models/gpt2.h"

namespace gangway::programs {
namespace {

TransformerConfig gpt2(int64_t layers, int64_t dim, int64_t heads) {
  return {
      .vocab = 50304, .seq = 1024, .dim = dim, .layers = layers, .heads = heads, .hidden = 4 * dim};
}

}  // namespace

TransformerConfig gpt2_124m() { return gpt2(12, 768, 12); }
TransformerConfig gpt2_xl() { return gpt2(48, 1600, 25); }

TransformerConfig with_experts(TransformerConfig model, int64_t experts, int64_t groups) {
  model.moe = {.experts = experts, .top_k = 2, .groups = groups};
  return model;
}

}  // namespace gangway::programs
