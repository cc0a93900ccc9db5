// A training step of a transformer of any depth, with its gradient and optimizer, as a scan over
// stacked layers or with every layer written out: what compiling costs is measured on it. Nothing
// runs it.
//
// Threads: pure functions.
#pragma once

#include "ir/build/program_builder.h"

namespace gangway::bench {

struct DeepProgram {
  int64_t layers = 96;
  int64_t dim = 12'288;
  int64_t heads = 96;
  int64_t experts = 64;  // Of each layer, with a capacity; 0: a dense feed-forward layer.
  int64_t vocab = 50'257;
  int64_t batch = 512, seq = 2048;
  bool scan = true;
  Mesh mesh;  // Axes "data", "tensor" and "expert".
};

// GPT-3's shape (Brown et al. 2020), its feed-forward layers replaced by 64 experts each.
DeepProgram gpt3(int64_t data, int64_t tensor, int64_t expert);
// Small layers, all written out: the graph has about 100 nodes for each.
DeepProgram unrolled(int64_t layers);

Program trace(const DeepProgram& model);

}  // namespace gangway::bench
