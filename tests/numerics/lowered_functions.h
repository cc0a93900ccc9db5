// Functions whose ops are cut along factors that take a distributed op, and the axes
// that cut them. Tests run them by the reference executor and on devices.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ir/transforms/pipeline.h"

namespace gangway::numerics {

// Words, rows and features of a language model of one layer, and the axes that cut each.
struct VocabularySizes {
  int64_t words = 12, batch = 4, seq = 3, dim = 6;
  std::vector<std::string> of_words = {}, of_batch = {};  // Mesh axes, outer first.
  DType dtype = DType::kF64;
};
// "losses" of each row, and the gradients of their mean by "table" and "w"; parameters 2 and 3 are
// the words and the labels.
Function vocabulary_model(const Mesh& mesh, const VocabularySizes& sizes, CallContext& context);

struct AttentionSizes {
  int64_t batch = 2, seq = 8, heads = 2, width = 3;
  bool causal = true;
  bool packed = false;  // Whether queries, keys and values are one product of one weight.
  std::vector<std::string> of_batch = {}, of_seq = {}, of_heads = {};  // Mesh axes, outer first.
  DType dtype = DType::kF64;
  int64_t dim() const { return heads * width; }
};
// Attention between projections of x, and the gradients of a loss.
Function attention_layer(const Mesh& mesh, const AttentionSizes& sizes, CallContext& context);
// Two residual layers of attention, which share one body.
Function attention_layers(const Mesh& mesh, const AttentionSizes& sizes, CallContext& context);

// The names of all ops. The ops of a body are counted once for every node that names the body.
std::vector<std::string> op_names(const Function& function);

}  // namespace gangway::numerics
